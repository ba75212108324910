package behaviour

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestCompact_LeavesNothingDeletedOrOverwritten(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	for round := range 3 {
		testkit.SetKeys(t, db, 0, 2000, 100, byte(round))
		testkit.SetKeys(t, db, 2000, 2300, 2000, byte(round)) // in value files
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	s := db.Stats()
	if got, want := s.TableBytes+s.ValueBytes, int64(2000*100+300*2000); got > want*3/2 {
		t.Errorf("tables and values take %d bytes for %d of values", got, want)
	}
	if s.ValueGarbage != 0 || s.Memtables != 1 || s.MemtableEntries != 0 || s.Debt != 0 {
		t.Errorf("after Compact: %+v", s)
	}
	for level := range len(s.Levels) - 1 {
		if s.Levels[level].Tables != 0 {
			t.Errorf("level %d has %d tables", level, s.Levels[level].Tables)
		}
	}
	testkit.DeleteKeys(t, db, 0, 2300)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if s := db.Stats(); s.Tables != 0 || s.Values != 0 || s.GarbageFiles != 0 {
		t.Errorf("after everything was deleted there are %d tables, %d value files, %d files of garbage", s.Tables, s.Values, s.GarbageFiles)
	}
	testkit.Must(t, db.Close())
}

func TestCollect_GivesBackLittleGarbage(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 1000, 2000, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	const gone = 50 // one of so many, so that no file has much garbage
	for i := 0; i < 1000; i += gone {
		testkit.DeleteKeys(t, db, i, i+1)
	}
	// A range, so that it merges and does not collect.
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte{0}}))
	before := db.Stats()
	if before.ValueGarbage == 0 {
		t.Fatal("there is nothing to collect")
	}
	testkit.Must(t, db.Collect(t.Context()))
	after := db.Stats()
	if after.ValueGarbage != 0 || after.ValueBytes >= before.ValueBytes {
		t.Errorf("%d bytes of value files with %d of garbage became %d with %d",
			before.ValueBytes, before.ValueGarbage, after.ValueBytes, after.ValueGarbage)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for i := range 1000 {
			v, err := tx.Get(testkit.Key(i))
			if i%gone == 0 && !errors.Is(err, stoat.ErrNotFound) || i%gone != 0 && (err != nil || len(v) != 2000) {
				t.Errorf("key %d has %d bytes, error %v", i, len(v), err)
			}
		}
		return nil
	}))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Collect(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	testkit.Must(t, db.Close())
}

func TestCompact_RemovesVersionsThatASnapshotNeededEarlier(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 1000, 100, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // into a table, which the snapshot holds
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	testkit.SetKeys(t, db, 0, 1000, 100, 2)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	both := db.Stats().TableBytes
	if v, err := tx.Get(testkit.Key(500)); err != nil || v[0] != 1 {
		t.Fatalf("the snapshot sees %v, error %v", v, err)
	}
	if s := db.Stats(); s.GarbageFiles == 0 || s.GarbageBytes == 0 || s.GarbageAge == 0 {
		t.Errorf("while a transaction holds replaced files: %d files, %d bytes, %v", s.GarbageFiles, s.GarbageBytes, s.GarbageAge)
	}
	tx.Discard()
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	s := db.Stats()
	if s.TableBytes > both*6/10 {
		t.Errorf("%d bytes of two versions became %d of one", both, s.TableBytes)
	}
	compactions := s.Compactions
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if again := db.Stats().Compactions; again != compactions {
		t.Errorf("a second Compact found %d jobs more", again-compactions)
	}
	testkit.Must(t, db.Close())
}

func TestCompact_OfARangeLeavesOtherKeysAlone(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 4000, 100, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	// So few deletions stay in level 0 of themselves.
	for _, half := range []int{0, 2000} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := half; i < half+2000; i += 10 {
				if err := tx.Delete(testkit.Key(i)); err != nil {
					return err
				}
			}
			return nil
		}))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("a"), Upper: []byte("b")}))
	}
	before := db.Stats()
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: testkit.Key(0), Upper: testkit.Key(1500)}))
	after := db.Stats()
	if before.Levels[0].Tables != 2 || after.Levels[0].Tables != 1 {
		t.Errorf("of %d tables above the last level there are %d left", before.Levels[0].Tables, after.Levels[0].Tables)
	}
	if took := before.TableBytes - after.TableBytes; took < before.TableBytes/50 || took > before.TableBytes/8 {
		t.Errorf("the range took %d bytes of %d", took, before.TableBytes)
	}
	err := db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("b"), Upper: []byte("b")})
	if err == nil {
		t.Error("an empty range was compacted")
	}
	testkit.Must(t, db.Close())
}

func TestCompact_TellsItsProgress(t *testing.T) {
	t.Parallel()
	keep := &namedFilter{"keep", func([]byte) (stoat.FilterDecision, []byte) { return stoat.FilterKeep, nil }}
	for name, change := range map[string]func(*stoat.Options){
		"without a filter": nil,
		"with a filter":    func(o *stoat.Options) { o.Filter, o.Filters = keep.Name(), []stoat.Filter{keep} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testkit.OpenOn(t, memfs.New(), change)
			testkit.SetKeys(t, db, 0, 5000, 100, 1)
			var last stoat.CompactProgress
			calls := 0
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Progress: func(p stoat.CompactProgress) {
				if p.Done < last.Done || p.Total < p.Done {
					t.Errorf("%+v after %+v", p, last)
				}
				last = p
				calls++
			}}))
			if calls == 0 || last.Done != last.Total {
				t.Errorf("after %d calls: %+v", calls, last)
			}
			testkit.Must(t, db.Close())
		})
	}
}

func TestCompact_EndsWithItsContextAndWithClose(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 5000, 100, 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Compact(ctx, stoat.CompactOptions{Progress: func(stoat.CompactProgress) { cancel() }})
	testkit.WantError(t, "Compact with a context that ended", err, context.Canceled)
	testkit.SetKeys(t, db, 0, 5000, 100, 2)
	closed := make(chan error)
	var once sync.Once
	err = db.Compact(t.Context(), stoat.CompactOptions{Progress: func(stoat.CompactProgress) {
		once.Do(func() {
			go func() { closed <- db.Close() }()
			for !errors.Is(db.Sync(), stoat.ErrClosed) {
				runtime.Gosched()
			}
		})
	}})
	// Close may find it done but for the last step.
	if err != nil {
		testkit.WantError(t, "Compact of a database that is being closed", err, stoat.ErrClosed)
	}
	testkit.Must(t, <-closed)
	testkit.WantError(t, "Compact after Close", db.Compact(t.Context(), stoat.CompactOptions{}), stoat.ErrClosed)
}

func TestCompact_TakesTurnsWithWritersAndTheCompactor(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for round := range 6 {
			testkit.SetKeys(t, db, 0, 1500, 700, byte(round))
		}
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for i := range 1500 {
			if v, err := tx.Get(testkit.Key(i)); err != nil || len(v) != 700 || v[0] != 5 {
				t.Fatalf("key %d: %d bytes, %v", i, len(v), err)
			}
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}
