package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	// statesPerRun: one run of a workload gives at most so many crash states. More
	// need another run with another seed.
	statesPerRun = 1000
	// secondCrashes: so many second crashes follow each first one.
	secondCrashes = 8
)

// A Check crashes a state in one way and checks what is left.
type Check func(opts stoat.Options, s *State, m *model.Map, kind memfs.CrashKind, rng *rand.Rand) error

// checkRun runs a workload once and checks n crash states of it. It adds to done
// what the workload came to.
func checkRun(w workload, seed uint64, n int, done *testkit.WorkTally, check Check) error {
	return checkWith(testkit.KeysIf((seed+uint64(len(w.name)))%3 == 0), w, seed, n, done, check)
}

// checkWith is checkRun of a database with these keys, nil for a plain one.
func checkWith(keys stoat.KeyProvider, w workload, seed uint64, n int, done *testkit.WorkTally, check Check) error {
	kinds := memfs.CrashKinds()
	// A quarter of the states at boundaries of their own, and each of those
	// crashed in four ways, until there are more ways than boundaries.
	r := newCrashRun(seed, w.memtable, max(1, n/4))
	r.opts.Keys = keys
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
	r.opts.Events = nil // what the checks do is not counted
	for i := range n {
		s := &states[i%len(states)]
		if keys != nil && i < len(states) && i%4 == 0 { // few files live through less than four
			if err := testkit.NoSentinel(s.disk, testkit.Dir); err != nil {
				return fmt.Errorf("%v: %w", s, err)
			}
		}
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

// CheckOnce opens what a crash left. One time in four the database is used
// afterwards and crashes again.
func CheckOnce(opts stoat.Options, s *State, m *model.Map, kind memfs.CrashKind, rng *rand.Rand) error {
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
	opts.FS.(*memfs.FS).SetCapacity(1 << 40) // a full disk has room again
	m = m.Clone()
	m.Truncate(version)
	for range 1 + rng.IntN(3) {
		writes := testkit.MergeBatch(rng, 3, 100)
		err := error(nil)
		if rng.IntN(3) == 0 {
			writes = testkit.Ingestible(append(writes, testkit.SetKey(2, "ingested")))
			_, err = testkit.Ingest(db, nil, writes)
		} else {
			err = db.Update(func(tx stoat.Txn) error { return testkit.PutAll(tx, writes) })
		}
		if errors.Is(err, stoat.ErrNoSpace) {
			break // the workload left the disk full
		}
		if err != nil {
			return fmt.Errorf("commit after recovery at %d: %w", version, err)
		}
		m.Commit(writes)
	}
	disk := testkit.RandomCut(rng)(opts.FS.(*memfs.FS))
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

// CheckTwice crashes, opens, and crashes again at boundaries of that
// Open, and once more at one of the Close after it.
func CheckTwice(opts stoat.Options, s *State, m *model.Map, kind memfs.CrashKind, rng *rand.Rand) error {
	disk, first := s.disk.Crash(kind, rng), s.durable
	if rng.IntN(4) == 0 {
		disk, first = s.disk.Clone(), s.known // a kill, then a power cut
	}
	opts.FS = disk
	type cut struct {
		disk  *memfs.FS
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
	// A reader has seen this version from here on.
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
	kinds := memfs.CrashKinds()
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

// CheckSome runs each workload once and checks n crash states of each.
func CheckSome(seed uint64, n int, check Check) error { return checkSome(allWorkloads, seed, n, check) }

// CheckBatches is CheckSome for the workloads with batches.
func CheckBatches(seed uint64, n int) error {
	return checkSome(batchWorkloads, seed, n, CheckOnce)
}

// CheckTurns is CheckSome for the workloads with updates that take turns.
func CheckTurns(seed uint64, n int) error {
	return checkSome(turnWorkloads, seed, n, CheckOnce)
}

func checkSome(workloads []workload, seed uint64, n int, check Check) error {
	return testkit.Times(len(workloads), func(i int) error {
		err := checkRun(workloads[i], seed, n, new(testkit.WorkTally), check)
		if err != nil {
			err = fmt.Errorf("workload %q: %w", workloads[i].name, err)
		}
		return err
	})
}
