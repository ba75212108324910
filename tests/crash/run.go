package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A crashRun runs one workload on a disk in memory. At the boundaries of its operations it
// takes copies of the disk, to be crashed later.
//
// A crash in the middle of a workload ends an era. What the disk can hold after it follows
// from what recovery found, not from what was written last.
type crashRun struct {
	seed  uint64
	rng   *rand.Rand
	clock *testkit.Clock
	opts  stoat.Options
	fs    *memfs.FS
	db    *stoat.DB
	era   *era

	work    *testkit.WorkTally
	comesTo []testkit.Work // what the workload is about, and must have done

	// What every crash from now on must keep: of the process, and of the
	// machine. They never run ahead of what a client was told.
	known, durable atomic.Uint64

	sample struct {
		sync.Mutex
		testkit.Sample[State]
	}
}

// An era is the commits between two crashes.
type era struct {
	mu      sync.Mutex
	before  *model.Map
	commits map[uint64][]model.Write
	m       *model.Map // all of them in order, once the era has ended
}

// A State is a disk at a boundary, and what was promised then.
type State struct {
	disk           *memfs.FS
	era            *era
	known, durable uint64
	boundary       int
	op             string
}

func newCrashRun(seed uint64, memtable int64, limit int) *crashRun {
	r := &crashRun{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), clock: testkit.NewClock(), work: new(testkit.WorkTally)}
	r.opts = testkit.Merging(stoat.Options{Clock: r.clock, Events: r.work.Note, MemtableSize: memtable, NumVersions: 1 + int(seed%3),
		Compression: testkit.Compressions[seed/3%3], DataKeyAge: time.Second})
	r.sample.Rand, r.sample.Max = rand.New(rand.NewPCG(seed, 2)), limit
	m := model.NewMap()
	m.Versions = r.opts.NumVersions
	r.newEra(m)
	r.use(memfs.New())
	return r
}

func (r *crashRun) newEra(before *model.Map) {
	r.era = &era{before: before, commits: make(map[uint64][]model.Write)}
}

// use goes on with another disk.
func (r *crashRun) use(fs *memfs.FS) {
	r.fs, r.opts.FS = fs, fs
	fs.SetHook(func(op vfs.Op) { r.boundary(op.String()) })
}

// boundary may take the state of the disk. All boundaries of a run have the
// same chance to be among those that are taken.
func (r *crashRun) boundary(op string) {
	s := &r.sample
	s.Lock()
	defer s.Unlock()
	at := s.Seen
	slot := s.Slot()
	if slot == nil {
		return
	}
	// First what was promised, then the disk: the other way round a commit
	// that is acknowledged in between would be missed.
	known, durable := r.known.Load(), r.durable.Load()
	*slot = State{
		disk: r.fs.Clone(), era: r.era, known: known, durable: durable, boundary: at, op: op,
	}
}

// record notes an acknowledged commit.
func (r *crashRun) record(seq uint64, writes []model.Write) {
	r.era.mu.Lock()
	defer r.era.mu.Unlock()
	r.era.commits[seq] = writes
}

// acknowledged notes that a client was told that seq is committed.
func (r *crashRun) acknowledged(seq uint64, d stoat.Durability) {
	testkit.Raise(&r.known, seq)
	if d == stoat.Synced {
		testkit.Raise(&r.durable, seq)
	}
}

// commit writes a transaction and notes it. Any number of goroutines may
// commit at the same time.
func (r *crashRun) commit(d stoat.Durability, writes ...model.Write) error {
	return r.commitAs(testkit.PutAll, d, writes)
}

// commitAs is commit of a transaction that fill fills with the writes.
func (r *crashRun) commitAs(fill func(stoat.Txn, []model.Write) error, d stoat.Durability, writes []model.Write) error {
	tx, err := r.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	if err := fill(tx, writes); err != nil {
		return err
	}
	if err := tx.Commit(stoat.WithDurability(d)); err != nil {
		return err
	}
	r.record(tx.CommitVersion(), writes)
	r.acknowledged(tx.CommitVersion(), d)
	return nil
}

// An ingestWay ingests writes of a keyspace.
type ingestWay func(*stoat.DB, *stoat.Keyspace, []model.Write) (uint64, error)

// ingest ingests those of the writes that an ingest can make. It is durable, and so is
// everything before it.
func (r *crashRun) ingest(writes []model.Write) error {
	writes = testkit.Ingestible(writes)
	if len(writes) == 0 {
		return nil
	}
	way := []ingestWay{testkit.Ingest, testkit.IngestFiles, testkit.BulkLoad}[len(writes)%3]
	version, err := way(r.db, nil, writes)
	if err == nil {
		r.record(version, writes)
		r.acknowledged(version, stoat.Synced)
	}
	return err
}

// sync makes everything known durable.
func (r *crashRun) sync() error {
	known := r.known.Load()
	if err := r.db.Sync(); err != nil {
		return err
	}
	testkit.Raise(&r.durable, known)
	return nil
}

// open opens the database on the run's disk and demands at least floor.
func (r *crashRun) open(floor uint64) (version uint64, err error) {
	if r.db, err = stoat.Open(testkit.Dir, &r.opts); err != nil {
		return 0, err
	}
	version, err = testkit.VersionOf(r.db)
	if err == nil && version < floor {
		err = fmt.Errorf("opened at commit %d, want at least %d", version, floor)
	}
	// The caller of Open has seen this version.
	r.acknowledged(version, stoat.Synced)
	return version, err
}

// close ends the database cleanly: everything is durable.
func (r *crashRun) close() error {
	known := r.known.Load()
	if err := r.db.Close(); err != nil {
		return err
	}
	r.acknowledged(known, stoat.Synced)
	return nil
}

// crash ends the era and the database, and opens what is left of the disk.
func (r *crashRun) crash(cut func(*memfs.FS) *memfs.FS, floor uint64) error {
	disk := cut(r.fs)
	if err := r.db.Close(); err != nil {
		return err
	}
	ended := r.endEra()
	opts := r.opts
	opts.FS = disk.Clone()
	db, version, err := testkit.OpenRecovered(opts, ended, r.clock.Seen(), floor)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	before := ended.Clone()
	before.Truncate(version)
	r.newEra(before)
	r.known.Store(floor) // durable stays: a kill makes nothing durable
	r.use(disk)
	_, err = r.open(version)
	return err
}

// endEra puts the commits of the era in order.
func (r *crashRun) endEra() *model.Map {
	e := r.era
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m == nil {
		e.m = e.before.Clone()
		for seq := e.m.Last() + 1; ; seq++ {
			writes, ok := e.commits[seq]
			if !ok {
				break
			}
			e.m.Commit(writes)
		}
	}
	return e.m
}

// states ends the run, takes its last state, and returns all it took.
func (r *crashRun) states() ([]State, error) {
	r.boundary("the end")
	err := r.close()
	if m := r.endEra(); err == nil && m.Last() != r.era.before.Last()+uint64(len(r.era.commits)) {
		err = errors.New("the versions of the commits have a hole")
	}
	r.fs.SetHook(nil)
	return r.sample.Kept, err
}

// String says how to find the state again.
func (s *State) String() string {
	return fmt.Sprintf("boundary %d (before %s), commit %d known, %d durable", s.boundary, s.op, s.known, s.durable)
}
