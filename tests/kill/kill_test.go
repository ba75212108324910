package kill

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// killEnv makes this test binary live a life of a database until it is
// killed. Its value is the directory, the seed and the number of the life.
const killEnv = "STOAT_TEST_KILL"

// A process that is to be killed never reaches TestMain.
func init() {
	if words := os.Getenv(killEnv); words != "" {
		os.Exit(liveToBeKilled(strings.Split(words, "\n")))
	}
}

// liveToBeKilled tells its news on the standard output: one line in one call
// of write, which a pipe takes whole.
func liveToBeKilled(words []string) int {
	var numbers [2]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(words[1+i], 10, 64); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	plan := PlanLife(numbers[0], numbers[1])
	plan.Drops = true
	err := plan.Live(words[0], func(n News) {
		// A write that fails means that the kill is on its way.
		_, _ = os.Stdout.Write(fmt.Appendf(nil, "%c %v %d\n", n.kind, n.id, n.version))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killsPerDatabase is how many lives one database has; the model of what it
// went through grows with each.
const killsPerDatabase = 12

// TestKill kills processes that write to a database, with signal 9 and at
// random moments: while they open it, write, flush or close it. Everything
// that they had acknowledged before must be there, as the operating system
// lives on, nothing in part, and the database must go on from there.
func TestKill(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	kills := dose.Size(t, dose.Kills, 4, 20)
	dose.Reproduce(t, "kill")
	tally := new(killTally)
	err := EachChain(kills, killsPerDatabase, func(chain, lives int) error {
		if err := killChain(seed+uint64(chain), lives, tally); err != nil {
			return fmt.Errorf("seed %d: %w", seed+uint64(chain), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d of encrypted databases: %d before the database was open, %d after it was closed; "+
		"%d commits acknowledged, %d found without; %d drops of keyspaces; "+
		"followers looked %d times and read %d changes, some were gone %d times; %d backups",
		tally.kills.Load(), tally.encrypted.Load(), tally.early.Load(), tally.late.Load(),
		tally.commits.Load(), tally.found.Load(), tally.drops.Load(),
		tally.Looks.Load(), tally.Changes.Load(), tally.Gone.Load(), tally.Backups.Load())
	if tally.Looks.Load() == 0 || tally.Changes.Load() == 0 {
		t.Error("no follower has seen anything")
	}
}

// A killTally counts what kills have met.
type killTally struct {
	kills, encrypted, early, late, commits, found, drops atomic.Int64
	witnessTally
}

// killChain takes one database through lives that end with a kill. When
// something is wrong, the database stays on the disk as evidence.
func killChain(seed uint64, lives int, tally *killTally) error {
	place := Scratch
	if seed%4 == 0 {
		place = func(name string) (string, error) { return os.MkdirTemp("", name) } // where a sync takes its time
	}
	parent, err := place("stoat-kill-")
	if err != nil {
		return err
	}
	dir := filepath.Join(parent, "db")
	s, witness := NewState(), newWitness(&tally.witnessTally)
	for life := range uint64(lives) {
		rng := rand.New(rand.NewPCG(seed, 1<<32+life))
		l := NewLedger(seed, life, s)
		l.Drops = true
		ended, watched := make(chan struct{}), make(chan error, 1)
		go func() {
			rng := rand.New(rand.NewPCG(seed, 2<<32+life))
			watched <- testkit.CatchPanic(func() error { return witness.Watch(dir, PlanLife(seed, life).Opts, rng, ended) })
		}()
		err := killLife(dir, l, rng, tally)
		close(ended)
		if err = errors.Join(err, <-watched); err != nil {
			return fmt.Errorf("life %d in %s: %w", life, dir, err)
		}
		acknowledged := len(l.Commits)
		if s, err = Examine(dir, l, l.Known.Load(), rng); err != nil {
			return fmt.Errorf("life %d in %s, after the kill: %w", life, dir, err)
		}
		tally.kills.Add(1)
		tally.commits.Add(int64(acknowledged))
		tally.found.Add(int64(len(l.Commits) - acknowledged))
		tally.drops.Add(int64(l.drops))
		if Encrypted(seed) {
			tally.encrypted.Add(1)
		}
	}
	return os.RemoveAll(parent)
}

// killLife starts a process, kills it at some moment and hears what it had
// told until then. The moment is one of its news and a little later, or,
// for the opening, a time after the start; when exactly is for the scheduler
// to say, so that a seed does not bring it back.
func killLife(dir string, l *Ledger, rng *rand.Rand, tally *killTally) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%d\n%d", killEnv, dir, l.Seed, l.Life))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	plan := PlanLife(l.Seed, l.Life)
	most := plan.Writers*int(plan.Tries)*13/12 + 2 // with the drops
	killAfter, delay := rng.IntN(most+most/8), time.Duration(rng.IntN(1000))*time.Microsecond
	if rng.IntN(6) == 0 {
		killAfter, delay = 0, time.Duration(rng.IntN(20_000))*time.Microsecond
	}
	// A process that has ended before is killed as well: it has closed.
	kill := func() { _ = cmd.Process.Kill() }
	if killAfter == 0 {
		time.AfterFunc(delay, kill)
	}
	// What hangs shows where.
	hung := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer hung.Stop()
	heard, last, err := hearAll(stdout, l, func(n int) {
		if n == killAfter {
			time.AfterFunc(delay, kill)
		}
	})
	if err != nil {
		kill()
	}
	_ = cmd.Wait() // the error is the signal
	switch {
	case err != nil:
		return err
	case complaint.Len() > 0:
		return fmt.Errorf("the process says: %s", complaint.String())
	case heard == 0:
		tally.early.Add(1)
	case last == newsClosed:
		tally.late.Add(1)
	}
	return nil
}

// hearAll reads the news of a process until its end and counts them.
func hearAll(from io.Reader, l *Ledger, each func(n int)) (heard int, last newsKind, err error) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return heard, last, nil
		}
		if err != nil {
			return heard, last, err
		}
		var n News
		_, err = fmt.Sscanf(line, "%c %d/%d/%d %d\n", &n.kind, &n.id.Life, &n.id.Writer, &n.id.N, &n.version)
		if err == nil {
			err = l.Hear(n)
		}
		if err != nil {
			return heard, last, fmt.Errorf("news %q: %w", line, err)
		}
		heard++
		last = n.kind
		each(heard)
	}
}
