package stoat_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// TestCrash cuts the power at the boundaries of what 35 and more workloads do
// to the disk, in every way that vfs.Mem knows, and opens what is left: it
// must be the state after some commit, none that was acknowledged as durable
// may be missing, and the database must go on from there.
func TestCrash(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 120, 2_000)
	dose.Reproduce(t, "crash")
	eachCrashState(t, seed, states, 0, checkCrash)
}

// TestCrashTwice cuts the power again while the database is being opened
// after a crash, at the boundaries of what Open does to the disk.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 12, 500)
	dose.Reproduce(t, "crash-twice")
	eachCrashState(t, seed+1_000_000, states, secondCrashes, checkSecondCrash)
}

const (
	// statesPerRun is how many crash states one run of a workload is used
	// for at most; more need another run with another seed.
	statesPerRun = 1000
	// secondCrashes is how many second crashes follow each first one.
	secondCrashes = 8
)

// A crashCheck crashes a state in one way and checks what is left.
type crashCheck func(opts stoat.Options, s *crashState, m *model.Map, kind vfs.CrashKind, rng *rand.Rand) error

// eachCrashState runs all workloads until there were so many states in all,
// a check counting for perCheck of them, or one if that is 0.
func eachCrashState(t *testing.T, seed uint64, states, perCheck int, check crashCheck) {
	checks := checksOfEach(states, max(1, perCheck), len(crashWorkloads))
	rounds := (checks + statesPerRun - 1) / statesPerRun
	var next atomic.Int64
	var failed testkit.FirstError
	var done testkit.WorkTally
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.Get() == nil {
				job := int(next.Add(1)) - 1
				if job >= rounds*len(crashWorkloads) {
					return
				}
				w := crashWorkloads[job%len(crashWorkloads)]
				round := seed + uint64(job/len(crashWorkloads))
				if err := crashRound(w, round, min(checks, statesPerRun), &done, check); err != nil {
					failed.Set(fmt.Errorf("workload %q, seed %d: %w", w.name, round, err))
				}
			}
		})
	}
	workers.Wait()
	if err := failed.Get(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs of %d workloads: %v", rounds*len(crashWorkloads), len(crashWorkloads), &done)
	if err := done.Lacks(testkit.AllWork...); err != nil {
		t.Error(err)
	}
}

// checksOfEach is how many checks of each workload make at least so many states,
// a check counting for perCheck of them.
func checksOfEach(states, perCheck, workloads int) int {
	return max(1, (states+perCheck*workloads-1)/(perCheck*workloads))
}

func TestNoFewerCrashStatesAreVisitedThanWereAskedFor(t *testing.T) {
	t.Parallel()
	for _, workloads := range []int{1, 35, 40, 41} {
		for _, states := range []int{1, 39, 40, 41, 300, 500, 2_000, 20_000} {
			for _, perCheck := range []int{1, secondCrashes} {
				n := checksOfEach(states, perCheck, workloads) * perCheck * workloads
				if n < states || n >= states+perCheck*workloads {
					t.Errorf("%d states of %d workloads, %d a check: %d are visited", states, workloads, perCheck, n)
				}
			}
		}
	}
}

// crashRound runs a workload once and checks n crash states of it. It adds to done
// what the workload came to.
func crashRound(w crashWorkload, seed uint64, n int, done *testkit.WorkTally, check crashCheck) error {
	kinds := vfs.CrashKinds()
	// A quarter of the states at boundaries of their own, and each of those
	// crashed in four ways, until there are more ways than boundaries.
	r := newCrashRun(seed, w.memtable, max(1, n/4))
	_, err := r.open(0)
	if err == nil {
		err = w.run(r)
	}
	if err != nil {
		return fmt.Errorf("the workload itself: %w", err)
	}
	states, err := r.states()
	if err == nil {
		err = r.work.Lacks(r.comesTo...)
	}
	if err != nil {
		return fmt.Errorf("the workload itself: %w", err)
	}
	done.Add(r.work)
	r.opts.Events = nil // what others do is not counted
	for i := range n {
		s := &states[i%len(states)]
		kind := kinds[(i/len(states)+i)%len(kinds)]
		kindSeed := seed<<16 + uint64(i)
		err := testkit.CatchPanic(func() error {
			return check(r.opts, s, s.era.m, kind, rand.New(rand.NewPCG(kindSeed, 3)))
		})
		if err != nil {
			return fmt.Errorf("%v, crash %q, crash seed %d: %w", s, kind, kindSeed, err)
		}
	}
	return nil
}

// checkCrash opens what a crash left. One time in four the database is used
// afterwards and crashes again.
func checkCrash(opts stoat.Options, s *crashState, m *model.Map, kind vfs.CrashKind, rng *rand.Rand) error {
	opts.FS = s.disk.Crash(kind, rng)
	floor := s.durable
	if rng.IntN(8) == 0 {
		opts.FS, floor = s.disk.Clone(), s.known // the process alone dies
	}
	db, version, err := testkit.OpenRecovered(opts, m, opts.Clock.(*testkit.Clock).Seen(), floor)
	if err != nil {
		return err
	}
	if rng.IntN(4) != 0 {
		return db.Close()
	}
	return goOn(db, opts, m, version, rng)
}

// goOn writes to a recovered database, crashes it, and demands that both what
// was recovered and what was written are there.
func goOn(db *stoat.DB, opts stoat.Options, m *model.Map, version uint64, rng *rand.Rand) error {
	opts.FS.(*vfs.Mem).SetCapacity(1 << 40) // a full disk has room again
	m = m.Clone()
	m.Truncate(version)
	for range 1 + rng.IntN(3) {
		writes := testkit.RandomBatch(rng, 3, 100)
		err := db.Update(func(tx *stoat.Txn) error { return testkit.PutAll(tx, writes) })
		if errors.Is(err, stoat.ErrNoSpace) {
			break // the workload left the disk full
		}
		if err != nil {
			return fmt.Errorf("commit after recovery at %d: %w", version, err)
		}
		m.Commit(writes)
	}
	disk := testkit.RandomCut(rng)(opts.FS.(*vfs.Mem))
	if err := db.Close(); err != nil {
		return fmt.Errorf("close after recovery at %d: %w", version, err)
	}
	opts.FS = disk
	db, _, err := testkit.OpenRecovered(opts, m, opts.Clock.(*testkit.Clock).Seen(), m.Last())
	if err != nil {
		return fmt.Errorf("recovered at %d, wrote, crashed again: %w", version, err)
	}
	return db.Close()
}

// checkSecondCrash crashes, opens, and crashes again at boundaries of that
// Open, and once more at one of the Close after it.
func checkSecondCrash(opts stoat.Options, s *crashState, m *model.Map, kind vfs.CrashKind, rng *rand.Rand) error {
	disk, first := s.disk.Crash(kind, rng), s.durable
	if rng.IntN(4) == 0 {
		disk, first = s.disk.Clone(), s.known // a kill, then a power cut
	}
	opts.FS = disk
	type cut struct {
		disk  *vfs.Mem
		floor uint64
		op    string
	}
	var mu sync.Mutex // the database has goroutines of its own
	var opening, closing []cut
	var opened uint64
	read := false
	take := func(op string) {
		mu.Lock()
		defer mu.Unlock()
		c := cut{disk.Clone(), max(s.durable, opened), op}
		if read {
			closing = append(closing, c)
		} else {
			opening = append(opening, c)
		}
	}
	disk.SetHook(func(op vfs.Op) { take(op.String()) })
	db, version, err := testkit.OpenRecovered(opts, m, opts.Clock.(*testkit.Clock).Seen(), first)
	if err != nil {
		return err
	}
	// From here on somebody has read this version.
	mu.Lock()
	opened = version
	mu.Unlock()
	take("the end of Open")
	mu.Lock()
	read = true
	mu.Unlock()
	if err := db.Close(); err != nil {
		return err
	}
	take("the end of Close")
	rng.Shuffle(len(opening), func(i, j int) { opening[i], opening[j] = opening[j], opening[i] })
	cuts := make([]cut, 0, secondCrashes+1)
	for i := range secondCrashes {
		cuts = append(cuts, opening[i%len(opening)]) // none twice while there are others
	}
	// Those of Close are TestCrash's too; this one does not count.
	cuts = append(cuts, closing[rng.IntN(len(closing))])
	kinds := vfs.CrashKinds()
	for _, c := range cuts {
		kind := kinds[rng.IntN(len(kinds))]
		opts.FS = c.disk.Crash(kind, rng)
		db, _, err := testkit.OpenRecovered(opts, m, opts.Clock.(*testkit.Clock).Seen(), c.floor)
		if err != nil {
			return fmt.Errorf("first opened at %d, crashed again before %s, %q: %w", version, c.op, kind, err)
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	return nil
}

// TestCrashWorkloadsDiffer holds the list to its promise.
func TestCrashWorkloadsDiffer(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, w := range crashWorkloads {
		names[strings.ToLower(w.name)] = true
	}
	if len(names) != len(crashWorkloads) || len(names) < 35 {
		t.Errorf("%d names for %d workloads, want 35 or more", len(names), len(crashWorkloads))
	}
}
