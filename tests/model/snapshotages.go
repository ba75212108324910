package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// limitedLife is the number of steps of a life with snapshots of a greatest age.
const limitedLife = 250

// A limited is a snapshot with a greatest age, and the transactions that read it.
type limited struct {
	s      *stoat.Snapshot
	made   time.Time
	ends   time.Time // the zero time if its age has no limit
	closed bool      // before its end
	reads  []stoat.Txn
}

// err is what the beginning of a transaction returns now.
func (a *limited) err() error {
	switch {
	case a.closed:
		return stoat.ErrTxnDone
	case !a.ends.IsZero() && time.Now().After(a.ends):
		return stoat.ErrSnapshotExpired
	}
	return nil
}

// A limitedRun is a life of a database whose snapshots end at their greatest age.
type limitedRun struct {
	rng  *rand.Rand
	db   *stoat.DB
	m    *model.Map
	open []*limited
}

// RunSnapshotAges plays a life in a bubble, where the time passes at once.
func RunSnapshotAges(t *testing.T, seed uint64) (err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { err = playSnapshotAges(seed) })
	return err
}

func playSnapshotAges(seed uint64) (err error) {
	l := &limitedRun{rng: rand.New(rand.NewPCG(seed, 0xa9e5)), m: model.NewMap()}
	l.db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable, Durability: stoat.Buffered})
	if err != nil {
		return err
	}
	defer func() {
		for _, a := range l.open {
			for _, tx := range a.reads {
				tx.Discard()
			}
			a.s.Close()
		}
		err = errors.Join(err, l.db.Close())
	}()
	for i := range limitedLife {
		if err := l.step(); err != nil {
			return fmt.Errorf("snapshots with an age, life %d, step %d: %w", seed, i, err)
		}
	}
	return nil
}

func (l *limitedRun) step() error {
	switch n := l.rng.IntN(10); {
	case n == 0 && len(l.open) < 8:
		if err := l.make(); err != nil {
			return err
		}
	case n == 1:
		time.Sleep(time.Duration(l.rng.IntN(20)) * time.Second)
	case n == 2:
		if err := l.db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
			return err
		}
	case n < 7 && len(l.open) > 0:
		if err := l.use(l.open[l.rng.IntN(len(l.open))]); err != nil {
			return err
		}
	default:
		if err := l.write(); err != nil {
			return err
		}
	}
	return l.judge()
}

// make takes a snapshot. Its end is never a whole number of seconds away, and time passes
// in whole seconds. So it is always known which comes first.
func (l *limitedRun) make() error {
	a := &limited{made: time.Now()}
	var o stoat.SnapshotOptions
	if l.rng.IntN(4) > 0 {
		o.MaxAge = time.Duration(l.rng.IntN(60))*time.Second + time.Second/2
		a.ends = a.made.Add(o.MaxAge)
	}
	s, err := l.db.Snapshot(o)
	a.s = s
	if err == nil {
		l.open = append(l.open, a)
	}
	return err
}

func (l *limitedRun) write() error {
	writes := testkit.RandomBatch(l.rng, 20, 3000)
	l.m.Commit(writes)
	return l.db.Update(func(tx stoat.Txn) error { return testkit.PutAll(tx, writes) })
}

// use begins a transaction of a snapshot, ends one, reads it, or closes the snapshot.
func (l *limitedRun) use(a *limited) error {
	n := l.rng.IntN(8)
	switch {
	case n < 3:
		tx, err := a.s.Begin()
		if err == nil {
			a.reads = append(a.reads, tx)
		}
		if !errors.Is(err, a.err()) {
			return fmt.Errorf("a snapshot of age %v begins a transaction with error %v, want %w", time.Since(a.made), err, a.err())
		}
	case n < 5 && len(a.reads) > 0:
		i := l.rng.IntN(len(a.reads))
		a.reads[i].Discard()
		a.reads = slices.Delete(a.reads, i, i+1)
	case n < 7 && len(a.reads) > 0:
		return l.read(a, a.reads[l.rng.IntN(len(a.reads))])
	case n == 7:
		a.closed = a.err() == nil || a.closed
		a.s.Close()
	}
	return nil
}

// read demands what the transaction of a snapshot shows. It reads on after a Close, and not
// after the greatest age.
func (l *limitedRun) read(a *limited, tx stoat.Txn) error {
	err := testkit.Compare(tx, l.m, 0)
	if _, getErr := tx.Get([]byte("k")); !errors.Is(getErr, stoat.ErrNotFound) {
		err = errors.Join(err, getErr)
	}
	if expired := stoat.ErrSnapshotExpired; errors.Is(a.err(), expired) {
		if !errors.Is(err, expired) {
			return fmt.Errorf("a read of a snapshot of age %v: error %v, want %w", time.Since(a.made), err, expired)
		}
		return nil
	}
	return err
}

// judge compares what snapshots hold with what they should hold. It forgets those that hold
// nothing.
func (l *limitedRun) judge() error {
	synctest.Wait()
	stats := l.db.Stats()
	oldest, age := stats.Version, time.Duration(0)
	holding := l.open[:0:0]
	for _, a := range l.open {
		if a.err() != nil && len(a.reads) == 0 {
			continue
		}
		holding = append(holding, a)
		oldest, age = min(oldest, a.s.Version()), max(age, time.Since(a.made))
	}
	if stats.Snapshots != len(holding) || stats.SnapshotAge != age || stats.OldestVersion != oldest {
		return fmt.Errorf("%d snapshots of age %v hold version %d, want %d of age %v and version %d",
			stats.Snapshots, stats.SnapshotAge, stats.OldestVersion, len(holding), age, oldest)
	}
	if len(holding) == 0 && stats.GarbageFiles > 0 {
		return fmt.Errorf("no snapshot is left, and %d obsolete files are", stats.GarbageFiles)
	}
	if l.rng.IntN(4) > 0 {
		return nil
	}
	for _, a := range l.open { // those that have ended may be asked once more
		if a.err() != nil {
			if tx, err := a.s.Begin(); !errors.Is(err, a.err()) {
				if err == nil {
					tx.Discard()
				}
				return fmt.Errorf("a snapshot that has ended at age %v begins a transaction with error %v, want %w", time.Since(a.made), err, a.err())
			}
		}
	}
	l.open = holding
	return nil
}
