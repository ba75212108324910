//go:build mutants

package stoat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/isolation"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/tests/bits"
	"github.com/stoatdb/stoat/tests/crash"
	"github.com/stoatdb/stoat/tests/faults"
	isolationtest "github.com/stoatdb/stoat/tests/isolation"
	modeltest "github.com/stoatdb/stoat/tests/model"
)

// mutantEnv names the guarantee that a hunting process is to do without.
const mutantEnv = "STOAT_TEST_MUTANT"

// mutantPatience is how long one hunt may take. A hunt that finds nothing is
// over long before, so one that is not has met a database that hangs.
const mutantPatience = 20 * time.Minute

// TestMutants removes one guarantee of the engine at a time and demands that
// some harness notices. Each hunt has a process of its own, because a mutant
// may panic in a goroutine of the database or hang.
func TestMutants(t *testing.T) {
	seed := dose.Seed(t)
	dose.Reproduce(t, "mutants")
	for _, name := range append([]mutant.Name{""}, mutant.Names...) {
		label := string(name)
		if name == "" {
			label = "none"
		}
		t.Run(label, func(t *testing.T) {
			started := time.Now()
			caught, how := hunt(t, name, seed)
			switch {
			case name == "" && caught:
				t.Errorf("the harness sees a bug where none was seeded:\n%s", how)
			case name != "" && !caught:
				t.Errorf("nobody noticed:\n%s", how)
			default:
				t.Logf("%.1f s: %.500s", time.Since(started).Seconds(), how)
			}
		})
	}
}

// onlyBy names the harness that alone is asked about a mutant: it was made to
// notice such a thing, and must do so without the help of the others. It also
// spares those that come before it, which notice nothing of it for a long time.
var onlyBy = map[mutant.Name]string{
	mutant.NoPoison: "faults", mutant.RetrySync: "faults", mutant.SwallowFlushError: "faults",
	mutant.IgnoreDurableMark: "bits", mutant.IgnoreSeal: "bits", mutant.IgnoreUnreferenced: "bits",
	mutant.NoBarrier: "schedules", mutant.UnconfirmedView: "schedules", mutant.UntoldState: "schedules", mutant.WriteBack: resurrection, mutant.ForgetSnapshots: "schedules",
	mutant.FlushUnpublished: "schedules", mutant.CollectHeld: "schedules", mutant.EarlyDiscard: "schedules",
}

// hunt runs TestMutantHunt in another process and reports whether it failed.
func hunt(t *testing.T, name mutant.Name, seed uint64) (caught bool, how string) {
	t.Helper()
	exe, err := os.Executable()
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), mutantPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestMutantHunt$", "-test.v", fmt.Sprintf("-stoat.seed=%d", seed))
	cmd.Env = append(os.Environ(), mutantEnv+"="+string(name)+".")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if ctx.Err() != nil {
		return true, "hangs"
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), noHook) {
		t.Errorf("the engine never asked for %s", name)
	}
	return err != nil, out.String()
}

const noHook = "the engine never came to where this mutant lives"

// TestMutantHunt is one hunt: it fails when a harness notices.
func TestMutantHunt(t *testing.T) {
	name, hunting := strings.CutSuffix(os.Getenv(mutantEnv), ".")
	if !hunting {
		t.Skip("TestMutants runs this in a process of its own")
	}
	seed := dose.Seed(t)
	only := onlyBy[mutant.Name(name)]
	restore, rounds := func() int64 { return 1 }, 1
	if name != "" {
		restore, rounds = mutant.Enable(mutant.Name(name)), 3
	}
	if only == "schedules" {
		rounds = 6 // they are quick, and some mutants need a rare one
	}
	var images []*bits.Image
	var scenes []*faults.Scene
	if only == "" || only == "bits" {
		images = bits.Images(t)
	}
	if only == "" || only == "faults" {
		scenes = faults.Scenes(t)
	}
	for round := range rounds {
		for _, h := range harnesses(images, scenes, 1<<round) {
			if only != h.name && (only != "" || h.asked && name != "") {
				continue
			}
			if err := testkit.CatchPanic(func() error { return h.run(seed + uint64(round)) }); err != nil {
				t.Fatalf("%s, round %d: %v", h.name, round, err)
			}
		}
	}
	if restore() == 0 {
		t.Fatal(noHook)
	}
}

// A harness is a small dose of one of the tests of this package.
type harness struct {
	name  string
	run   func(seed uint64) error
	asked bool // only onlyBy sends mutants to it
}

// resurrection is the harness that must see a deleted key again.
const resurrection = "resurrected keys"

// harnesses returns all of them, with doses that grow with scale.
func harnesses(images []*bits.Image, scenes []*faults.Scene, scale int) []harness {
	return []harness{
		{name: "schedules", run: func(seed uint64) error {
			return testkit.Times(60*scale, func(i int) error { return stoat.RunSchedule(seed<<16 + uint64(i)) })
		}},
		{name: "model", run: func(seed uint64) error {
			return testkit.Times(2*scale, func(i int) error { return modeltest.RunLife(seed + uint64(i)) })
		}},
		{name: "isolation", run: func(seed uint64) error {
			return testkit.Times(scale, func(i int) error {
				return isolationtest.RunHistories(seed + uint64(10*i))
			})
		}},
		{name: "applications", run: func(seed uint64) error {
			return testkit.Times(len(isolation.Applications()), func(i int) error {
				_, err := isolationtest.PlayApplication(i, seed)
				return err
			})
		}},
		{name: "crash", run: func(seed uint64) error { return crash.CheckSome(seed, 8*scale, crash.CheckOnce) }},
		{name: "crash twice", run: func(seed uint64) error { return crash.CheckSome(seed, 2*scale, crash.CheckTwice) }},
		{name: "bits", run: func(seed uint64) error { return bits.DamageSome(images, seed, 40*scale) }},
		{name: "faults", run: func(seed uint64) error { return faults.FailSome(scenes, seed, 4*scale) }},
		{name: resurrection, run: func(uint64) error { return stoat.ResurrectedKey() }, asked: true},
	}
}
