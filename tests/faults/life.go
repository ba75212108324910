package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A faultyLife is one opening of a database, some transactions and its
// closing, on a file system that may fail at any call.
type faultyLife struct {
	*faultCase
	fs  *faultfs.FS
	db  *stoat.DB
	rng *rand.Rand

	work testkit.WorkTally

	// m holds what was acknowledged. Of the commits that failed since the
	// last one that succeeded, one may be found on the disk: the one that
	// broke the log. Those before it were refused without a trace.
	m              *model.Map
	known, durable uint64
	doubts         [][]model.Write
	fed            uint64 // the version up to which the feed was read
	copies         int    // that were begun
}

func (l *faultyLife) note(format string, args ...any) {
	l.history = append(l.history, fmt.Sprintf(format, args...))
}

// live returns an error only if something is wrong that a failing disk does
// not excuse.
func (l *faultyLife) live() error {
	l.history = nil
	opts := l.options(l.fs)
	opts.Events = l.work.Note
	db, err := stoat.Open(testkit.Dir, &opts)
	if err != nil {
		l.note("open: %v", err)
		return faultOf(err)
	}
	l.db = db
	l.known = l.m.Last()
	l.fed = l.known
	for i, step := range []func() error{
		l.read,
		l.commit(stoat.Synced, 3, 40),
		l.commit(stoat.Buffered, 3, 40),
		l.read,
		l.subscribe,
		l.follow,
		l.commit(stoat.Synced, 2, 40),
		l.commit(stoat.Buffered, 20, 20<<10),
		l.commit(stoat.Buffered, 20, 20<<10),
		l.sync,
		l.read,
		l.commit(stoat.Synced, 20, 20<<10),
		l.conflict,
		l.commit(stoat.Buffered, 2, 10),
		l.ingest,
		l.read,
		l.batch,
		l.subscribe,
		l.scatter(0),
		l.collect, // only flushes
		l.scatter(1),
		l.ingest,
		l.commitReaders,
		l.compact(stoat.CompactOptions{}), // joins and gathers
		l.deleteSome,
		l.compact(stoat.CompactOptions{Lower: []byte("k")}), // leaves garbage
		l.collect,
		l.backup,
		l.commit(stoat.Synced, 3, 40),
		l.follow,
		l.subscribe,
		l.read,
	} {
		if err := step(); err != nil {
			_ = db.Close() // the failure to tell is the one before
			return fmt.Errorf("step %d: %w", i, err)
		}
		// Most lives end soon after a fault: what is flushed later hides what is
		// missing in the log.
		if failed, _ := l.fs.Failed(); failed > 0 && l.rng.IntN(4) == 0 {
			break
		}
	}
	err = db.Close()
	l.note("close: %v", err)
	if err == nil {
		l.durable = l.known
	}
	return faultOf(err)
}

// faultOf accepts the errors that a failing disk may cause.
func faultOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stoat.ErrCorrupt), errors.Is(err, stoat.ErrLocked), errors.Is(err, stoat.ErrClosed):
		return fmt.Errorf("a failing call was taken for something else: %w", err)
	case errors.Is(err, faultfs.ErrInjected), errors.Is(err, vfs.ErrIO), errors.Is(err, stoat.ErrNoSpace):
		return nil
	}
	return fmt.Errorf("the error does not lead to its cause: %w", err)
}

// read demands that everything that is visible is right. What is in tables needs the disk,
// so reading it may fail with the error of the disk. Once the disk is well again, reading
// succeeds.
func (l *faultyLife) read() error {
	before, _ := l.fs.Failed()
	err := l.readOnce()
	after, _ := l.fs.Failed()
	if err == nil || !errors.Is(err, faultfs.ErrInjected) {
		return err
	}
	l.note("read: %v", err)
	if before == after {
		return fmt.Errorf("no call has failed, but reading has: %w", err)
	}
	if l.rule.Forever {
		return faultOf(err)
	}
	if again := l.readOnce(); again != nil {
		return fmt.Errorf("reading fails again: %w", again)
	}
	return faultOf(err)
}

func (l *faultyLife) readOnce() error {
	return l.db.View(func(tx stoat.Txn) error {
		if v := tx.ReadVersion(); v != l.known {
			return fmt.Errorf("snapshot at %d, want %d", v, l.known)
		}
		return testkit.Compare(tx, l.m, testkit.ClockStart)
	})
}

func (l *faultyLife) commit(d stoat.Durability, keys, size int) func() error {
	return func() error {
		return l.commitAll(nil, testkit.MergeBatch(rand.New(rand.NewPCG(l.m.Last(), uint64(size))), keys, size), d)
	}
}

// commitAll commits writes, whose values are given as readers unless that is nil.
func (l *faultyLife) commitAll(reader testkit.ReaderShape, writes []model.Write, d stoat.Durability) error {
	tx, err := l.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	for _, w := range writes {
		if err := testkit.PutAs(reader, tx, w); err != nil {
			l.note("set: %v", err)
			if reader == nil {
				return err // it needs no disk
			}
			return faultOf(err)
		}
	}
	err = tx.Commit(stoat.WithDurability(d))
	l.note("commit: %v", err)
	return l.committed(err, tx.CommitVersion(), writes, d)
}

// commitReaders commits values that are given as readers, each to a file of its own.
func (l *faultyLife) commitReaders() error {
	var writes []model.Write
	for i := range 6 {
		writes = append(writes, testkit.SetKey(300+i, strings.Repeat(fmt.Sprint(i), testkit.StreamedFrom)))
	}
	l.work[testkit.Streams].Add(int64(len(writes)))
	return l.commitAll(testkit.ReaderShapes[0], writes, stoat.Synced)
}

// ingest writes keys past the log, some of which are there.
func (l *faultyLife) ingest() error {
	var writes []model.Write
	for i := range 40 {
		writes = append(writes, testkit.SetKey(2*i, strings.Repeat("i", 20*i)))
	}
	writes = testkit.Ingestible(writes)
	version, err := testkit.Ingest(l.db, nil, writes)
	l.note("ingest: %v", err)
	return l.committed(err, version, writes, stoat.Synced)
}

// scatter commits short values apart from every second key.
func (l *faultyLife) scatter(first int) func() error {
	return func() error {
		var writes []model.Write
		for i := first; i < 100; i += 2 {
			writes = append(writes, testkit.SetKey(200+i, strings.Repeat("s", 600+i)))
		}
		return l.commitAll(nil, writes, stoat.Buffered)
	}
}

// deleteSome deletes some of what is there.
func (l *faultyLife) deleteSome() error {
	var writes []model.Write
	for i := 0; i < 306; i += 2 {
		w := testkit.SetKey(i, "")
		if _, ok := l.m.Newest(w.Key, l.m.Last()); ok {
			w.Deleted = true
			writes = append(writes, w)
		}
	}
	if len(writes) == 0 {
		return nil
	}
	return l.commitAll(nil, writes, stoat.Buffered)
}

func (l *faultyLife) compact(o stoat.CompactOptions) func() error {
	return func() error {
		err := l.db.Compact(context.Background(), o)
		l.note("compact: %v", err)
		return faultOf(err)
	}
}

func (l *faultyLife) collect() error {
	err := l.db.Collect(context.Background())
	l.note("collect: %v", err)
	return faultOf(err)
}

func (l *faultyLife) committed(err error, version uint64, writes []model.Write, d stoat.Durability) error {
	if err != nil {
		l.doubts = append(l.doubts, writes)
		return faultOf(err)
	}
	l.doubts = nil
	if want := l.m.Commit(writes); version != want {
		return fmt.Errorf("commit has version %d, want %d", version, want)
	}
	l.known = version
	if d == stoat.Synced {
		l.durable = version
	}
	return nil
}

func (l *faultyLife) sync() error {
	err := l.db.Sync()
	l.note("sync: %v", err)
	if err == nil {
		l.durable = l.known
	}
	return faultOf(err)
}

// conflict demands that a conflict is told as one, whatever the disk does.
func (l *faultyLife) conflict() error {
	tx, err := l.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	if _, err := tx.Has([]byte("key001")); err != nil {
		l.note("read: %v", err)
		return faultOf(err)
	}
	known := l.known
	if err := l.commit(stoat.Buffered, 1, 10)(); err != nil {
		return err
	}
	writes := []model.Write{testkit.SetKey(1, "x")}
	if err := testkit.PutAll(tx, writes); err != nil {
		return err
	}
	// The other wrote key000 or key001: ask the model.
	changed := false
	if l.known > known {
		v, ok := l.m.Newest("key001", l.known)
		changed = ok && v.Seq > known
	}
	err = tx.Commit(stoat.WithDurability(stoat.Buffered))
	l.note("commit after a read: %v", err)
	if errors.Is(err, stoat.ErrConflict) {
		if !changed {
			return errors.New("a conflict without a reason")
		}
		return nil
	}
	if err == nil && changed {
		return errors.New("no conflict, although the key was changed")
	}
	return l.committed(err, tx.CommitVersion(), writes, stoat.Buffered)
}

// lookAt opens a healthy disk and demands the state after some commit, floor
// or later, which may be a commit in doubt.
func (l *faultyLife) lookAt(disk *memfs.FS, floor uint64) error {
	m := l.m
	for i := len(l.doubts) - 1; ; i-- {
		left := disk.Clone()
		db, version, err := testkit.OpenRecovered(l.healthy(left), m, testkit.ClockStart, floor)
		if err == nil {
			return l.asGoodAsNew(left, db, m, version)
		}
		if i < 0 {
			return err
		}
		m = l.m.Clone()
		m.Commit(l.doubts[i])
	}
}

// healthy returns the options for a disk that does not fail.
func (l *faultyLife) healthy(disk *memfs.FS) stoat.Options {
	return testkit.Merging(stoat.Options{FS: disk, Clock: testkit.NewClock(), MemtableSize: testkit.SmallMemtable, Keys: l.scene.keys})
}

// asGoodAsNew demands that the database can be written and read, and that a power cut then
// takes nothing. A sync that failed may have lost what looks like written.
func (l *faultyLife) asGoodAsNew(disk *memfs.FS, db *stoat.DB, m *model.Map, version uint64) error {
	m = m.Clone()
	m.Truncate(version)
	writes := []model.Write{testkit.SetKey(5, "after the faults")}
	if err := db.Update(func(tx stoat.Txn) error { return testkit.PutAll(tx, writes) }); err != nil {
		return errors.Join(err, db.Close())
	}
	m.Commit(writes)
	err := db.View(func(tx stoat.Txn) error { return testkit.Compare(tx, m, testkit.ClockStart) })
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	db, _, err = testkit.OpenRecovered(l.healthy(disk.Crash(memfs.KeepNone, nil)), m, testkit.ClockStart, m.Last())
	if err != nil {
		return fmt.Errorf("after one more commit and a power cut: %w", err)
	}
	return db.Close()
}
