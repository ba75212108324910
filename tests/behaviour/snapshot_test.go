package behaviour

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func snapshot(t *testing.T, db *stoat.DB, o stoat.SnapshotOptions) *stoat.Snapshot {
	t.Helper()
	s, err := db.Snapshot(o)
	testkit.Must(t, err)
	return s
}

// holds demands that tx reads n keys of testkit.Key whose values are filled with fill.
func holds(t *testing.T, n int, fill byte) func(stoat.Txn) error {
	return func(tx stoat.Txn) error {
		i := 0
		for k, v := range tx.All() {
			if string(k) != string(testkit.Key(i)) || v[0] != fill || v[len(v)-1] != fill {
				t.Errorf("entry %d is %q, filled with %q", i, k, v[0])
			}
			i++
		}
		if i != n {
			t.Errorf("%d keys, want %d", i, n)
		}
		return tx.Err()
	}
}

func TestSnapshot_ShowsOneStateToManyGoroutinesBesideJobs(t *testing.T) {
	t.Parallel()
	const n = 300
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = testkit.SmallMemtable })
	testkit.SetKeys(t, db, 0, n, 1000, 'a')
	s := snapshot(t, db, stoat.SnapshotOptions{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				if err := s.View(holds(t, n, 'a')); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range byte(5) {
		testkit.SetKeys(t, db, 0, n, 1000, 'b'+round)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Collect(t.Context()))
	}
	all.Wait()
	testkit.Must(t, s.View(holds(t, n, 'a')))
	testkit.Must(t, db.View(holds(t, n, 'f')))
	testkit.Must(t, s.View(func(tx stoat.Txn) error {
		if tx.ReadVersion() != s.Version() {
			t.Errorf("a View reads version %d of snapshot %d", tx.ReadVersion(), s.Version())
		}
		testkit.WantError(t, "Set", tx.Set([]byte("k"), nil), stoat.ErrReadOnly)
		return nil
	}))
	s.Close()
	s.Close()
	testkit.WantError(t, "View after Close", s.View(holds(t, n, 'a')), stoat.ErrTxnDone)
	testkit.Must(t, db.Close())
}

func TestSnapshot_KeepsItsSpaceUntilItIsClosed(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 500, 1000, 'a')
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	s := snapshot(t, db, stoat.SnapshotOptions{})
	for round := range byte(3) {
		testkit.SetKeys(t, db, 0, 500, 1000, 'b'+round)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	if st := db.Stats(); st.Snapshots != 1 || st.SnapshotAge <= 0 || st.GarbageFiles == 0 {
		t.Errorf("%d snapshots of age %v, %d obsolete files", st.Snapshots, st.SnapshotAge, st.GarbageFiles)
	}
	running, goOn := make(chan bool), make(chan bool)
	ended := make(chan error, 1)
	go func() {
		ended <- s.View(func(tx stoat.Txn) error {
			v, err := tx.Get(testkit.Key(1))
			running <- true
			<-goOn
			if v[0] != 'a' {
				t.Errorf("a borrowed value is %q", v[0])
			}
			testkit.Must(t, holds(t, 500, 'a')(tx)) // goes on after Close
			return err
		})
	}()
	<-running
	s.Close()
	if st := db.Stats(); st.Snapshots != 1 || st.GarbageFiles == 0 {
		t.Errorf("beside a View, a closed snapshot keeps %d obsolete files", st.GarbageFiles)
	}
	close(goOn)
	testkit.Must(t, <-ended)
	testkit.Eventually(t, "the files are deleted", func() bool {
		st := db.Stats()
		return st.Snapshots == 0 && st.SnapshotAge == 0 && st.GarbageFiles == 0 && st.OldestVersion == st.Version
	})
	testkit.Must(t, db.Close())
}

func TestSnapshot_EndsAtItsGreatestAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := testkit.OpenOn(t, memfs.New(), nil)
		testkit.SetKeys(t, db, 0, 200, 100, 'a')
		s := snapshot(t, db, stoat.SnapshotOptions{MaxAge: time.Minute})
		kept := snapshot(t, db, stoat.SnapshotOptions{MaxAge: time.Hour})
		time.Sleep(59 * time.Second)
		testkit.Must(t, s.View(holds(t, 200, 'a')))
		testkit.Must(t, s.View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{})
			it.Next()
			v := it.Value()
			time.Sleep(2 * time.Second)
			_, err := tx.Get(testkit.Key(1))
			testkit.WantError(t, "Get", err, stoat.ErrSnapshotExpired)
			for it.Next() { // what it has read before may still show
			}
			testkit.WantError(t, "Iterator", it.Close(), stoat.ErrSnapshotExpired)
			if v[0] != 'a' {
				t.Errorf("a borrowed value is %q", v[0])
			}
			if n := db.Stats().Snapshots; n != 2 {
				t.Errorf("%d snapshots", n)
			}
			return nil
		}))
		testkit.WantError(t, "View", s.View(holds(t, 200, 'a')), stoat.ErrSnapshotExpired)
		s.Close()
		testkit.WantError(t, "View after Close", s.View(holds(t, 200, 'a')), stoat.ErrSnapshotExpired)
		if n, age := db.Stats().Snapshots, db.Stats().SnapshotAge; n != 1 || age != 61*time.Second {
			t.Errorf("%d snapshots of age %v", n, age)
		}
		testkit.Must(t, kept.View(holds(t, 200, 'a')))
		kept.Close()
		testkit.Must(t, db.Close())
	})
}

// A value that expires later stays in the snapshot, because all Views have one time.
func TestSnapshot_JudgesExpiryByOneTime(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.Clock = clock })
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return tx.Set(testkit.Key(0), []byte("a"), stoat.TTL(time.Minute))
	}))
	s := snapshot(t, db, stoat.SnapshotOptions{})
	clock.Ms.Add(time.Hour.Milliseconds())
	testkit.Must(t, db.View(holds(t, 0, 'a')))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, s.View(holds(t, 1, 'a')))
	s.Close()
	testkit.Must(t, db.Close())
}

func TestSnapshot_EndsWithContextsAndWithTheDatabase(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 10, 10, 'a')
	s := snapshot(t, db, stoat.SnapshotOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	testkit.Must(t, s.ViewContext(ctx, func(tx stoat.Txn) error {
		cancel()
		_, err := tx.Get(testkit.Key(1))
		testkit.WantError(t, "Get", err, context.Canceled)
		return nil
	}))
	testkit.WantError(t, "ViewContext", s.ViewContext(ctx, holds(t, 10, 'a')), context.Canceled)
	_, err := s.BeginContext(ctx)
	testkit.WantError(t, "BeginContext", err, context.Canceled)
	testkit.Must(t, s.View(func(tx stoat.Txn) error {
		testkit.Must(t, db.Close())
		_, err := tx.Get(testkit.Key(1))
		testkit.WantError(t, "Get", err, stoat.ErrClosed)
		return nil
	}))
	testkit.WantError(t, "View", s.View(holds(t, 10, 'a')), stoat.ErrClosed)
	s.Close()
	_, err = db.Snapshot(stoat.SnapshotOptions{})
	testkit.WantError(t, "Snapshot", err, stoat.ErrClosed)
	_, err = db.Snapshot(stoat.SnapshotOptions{MaxAge: -1})
	testkit.WantError(t, "Snapshot", err, stoat.ErrInvalid)
}
