package stoat_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs"
)

// faultErrors are the errors that calls fail with.
var faultErrors = []struct {
	name string
	rule vfs.Rule
}{
	{"EIO", vfs.Rule{}},
	{"ENOSPC", vfs.Rule{Err: vfs.ErrNoSpace}},
	{"EMFILE", vfs.Rule{Err: vfs.ErrTooManyFiles}},
	{"EACCES", vfs.Rule{Err: vfs.ErrPermission}},
	{"EROFS", vfs.Rule{Err: vfs.ErrReadOnly}},
	{"ENOSPC after a part", vfs.Rule{Err: vfs.ErrNoSpace, Partial: 700}},
	{"short", vfs.Rule{Partial: 1}},
	{"short by a sector", vfs.Rule{Partial: 512}},
	{"done but reported as failed", vfs.Rule{Done: true}},
	{"sync dropped", vfs.Rule{Sync: vfs.SyncDropped}},
	{"sync kept", vfs.Rule{Sync: vfs.SyncKept}},
	{"sync half kept", vfs.Rule{Sync: vfs.SyncHalf}},
	{"sync not tried", vfs.Rule{Sync: vfs.SyncNotTried}},
}

// A faultScene is a disk on which a faulty life of a database begins.
type faultScene struct {
	name string
	disk *vfs.Mem
	m    *model.Map // what is on it
}

// TestFaults makes every call to the file system fail, once and from then on,
// with every kind of error. Whatever happens: no panic, no wrong answer, reads
// go on, and what was acknowledged is there when the trouble is over.
func TestFaults(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	most := dose.Size(t, dose.States, 50, 500)
	dose.Reproduce(t, "faults")
	var calls [][]*faultCase
	for _, scene := range faultScenes(t) {
		calls = append(calls, scene.cases(t)...)
	}
	cases := dealt(calls, rand.New(rand.NewPCG(seed, 0xfa)))
	all := len(cases)
	if most < 0 {
		most = len(calls) // each fails once
	}
	cases = cases[:min(most, all)]
	var next, fired atomic.Int64
	var failed testkit.FirstError
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.Get() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(cases) {
					return
				}
				c := cases[n]
				if err := testkit.CatchPanic(func() error { return c.run(seed) }); err != nil {
					failed.Set(fmt.Errorf("%v: %w", c, err))
				}
				fired.Add(c.fired)
			}
		})
	}
	workers.Wait()
	if err := failed.Get(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d cases of %d calls, %d calls failed", len(cases), all, len(calls), fired.Load())
}

// dealt puts the cases in an order of which every beginning is fair to the calls:
// none fails once more than another before that one has failed as often. Which
// call comes when, and with which of its errors, is drawn.
func dealt(calls [][]*faultCase, rng *rand.Rand) []*faultCase {
	var left [][]*faultCase
	for _, cases := range calls {
		cases = slices.Clone(cases)
		rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		left = append(left, cases)
	}
	var order []*faultCase
	for len(left) > 0 {
		rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		for i, cases := range left {
			order = append(order, cases[0])
			left[i] = cases[1:]
		}
		left = slices.DeleteFunc(left, func(cases []*faultCase) bool { return len(cases) == 0 })
	}
	return order
}

func TestEachCallFailsOnceBeforeAnyFailsTwice(t *testing.T) {
	t.Parallel()
	var calls [][]*faultCase
	for nth := range int64(40) {
		var cases []*faultCase
		for i := range 1 + len(faultErrors) - int(nth%2) {
			cases = append(cases, &faultCase{what: fmt.Sprint(i), rule: vfs.Rule{Nth: nth}})
		}
		calls = append(calls, cases)
	}
	order := dealt(calls, rand.New(rand.NewPCG(1, 2)))
	again := dealt(calls, rand.New(rand.NewPCG(1, 2)))
	other := dealt(calls, rand.New(rand.NewPCG(2, 2)))
	times, firstErrors := make(map[int64]int), make(map[string]bool)
	for i, c := range order {
		if times[c.rule.Nth] != i/len(calls) && i < len(calls)*len(faultErrors) {
			t.Fatalf("case %d is call %d, which has failed %d times", i, c.rule.Nth, times[c.rule.Nth])
		}
		times[c.rule.Nth]++
		if i < len(calls) {
			firstErrors[c.what] = true
		}
	}
	seen := make(map[*faultCase]bool)
	for _, c := range order {
		seen[c] = true
	}
	if len(seen) != 40*len(faultErrors)+20 || len(order) != len(seen) {
		t.Errorf("%d cases were dealt, %d of them different, want all %d", len(order), len(seen), 40*len(faultErrors)+20)
	}
	if len(firstErrors) < 5 {
		t.Errorf("the first failures of 40 calls are of %d kinds", len(firstErrors))
	}
	if !slices.Equal(order, again) || slices.Equal(order, other) {
		t.Error("the order does not follow from the seed")
	}
}

// faultScenes makes the disks: empty, closed cleanly, left by a kill.
func faultScenes(t *testing.T) []*faultScene {
	t.Helper()
	scenes := []*faultScene{{name: "empty disk", disk: vfs.NewMem(), m: model.NewMap()}}
	for _, clean := range []bool{true, false} {
		r := modeltest.NewRun(modeltest.Shape{Keys: modeltest.KeySpaces[1], Memtable: testkit.SmallMemtable, Durability: stoat.Buffered, Still: true})
		_, err := r.Open(0, 0)
		testkit.Must(t, err)
		modeltest.CommitSome(t, r, 10, 60)
		testkit.Must(t, modeltest.OpReopen(r, nil))
		modeltest.CommitSome(t, r, 10, 30<<10)
		s := &faultScene{name: "after a kill", disk: r.FS.Clone(), m: r.Model}
		testkit.Must(t, r.Close())
		if clean {
			s.name, s.disk = "after a clean close", r.FS.Clone()
		}
		scenes = append(scenes, s)
	}
	return scenes
}

// A faultCase is one life with one rule.
type faultCase struct {
	scene   *faultScene
	rule    vfs.Rule
	what    string
	fired   int64
	lastOp  vfs.Op
	history []string
}

// cases lists, for every call of a life of the scene, the cases in which it is
// the first that fails: with every error, once and forever.
func (s *faultScene) cases(t *testing.T) [][]*faultCase {
	t.Helper()
	clean := &faultCase{scene: s, rule: vfs.Rule{Path: "matches nothing"}, what: "no fault"}
	calls := clean.count()
	if err := clean.run(0); err != nil {
		t.Fatalf("%s, without faults: %v", s.name, err)
	}
	var all [][]*faultCase
	for nth := int64(1); nth <= calls; nth++ {
		var cases []*faultCase
		for _, e := range faultErrors {
			for _, forever := range []bool{false, true} {
				rule := e.rule
				rule.Nth, rule.Forever, rule.Seed = nth, forever, uint64(nth)
				cases = append(cases, &faultCase{scene: s, rule: rule, what: e.name})
			}
		}
		all = append(all, cases)
	}
	return all
}

func (c *faultCase) String() string {
	return fmt.Sprintf("scene %q, call %d fails (forever %v) with %s, last failed: %v\n  %v",
		c.scene.name, c.rule.Nth, c.rule.Forever, c.what, c.lastOp, c.history)
}

// count runs the life without faults and counts its calls.
func (c *faultCase) count() int64 {
	l := &faultyLife{faultCase: c, fs: vfs.NewFaults(c.scene.disk.Clone()), m: c.scene.m.Clone()}
	_ = l.live()
	return l.fs.Calls()
}

// run lives the life with the rule in force and looks at what is left: with
// the disk as the process left it, and after a power cut.
func (c *faultCase) run(seed uint64) error {
	disk := c.scene.disk.Clone()
	l := &faultyLife{faultCase: c, fs: vfs.NewFaults(disk), m: c.scene.m.Clone()}
	l.known = l.m.Last()
	if c.scene.name == "after a clean close" {
		l.durable = l.known
	}
	l.rng = rand.New(rand.NewPCG(seed, uint64(c.rule.Nth)))
	fault := l.fs.Add(c.rule)
	err := l.live()
	c.fired = fault.Fired()
	_, c.lastOp = l.fs.Failed()
	if err != nil {
		return err
	}
	cut := testkit.RandomCut(l.rng)(disk)
	if err := l.lookAt(disk.Clone(), l.known); err != nil {
		return fmt.Errorf("after the faults: %w", err)
	}
	if err := l.lookAt(cut, l.durable); err != nil {
		return fmt.Errorf("after the faults and a power cut: %w", err)
	}
	return nil
}
