package stoat_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func openOn(t *testing.T, fs *memfs.FS, change func(*stoat.Options)) *stoat.DB {
	t.Helper()
	opts := &stoat.Options{FS: fs, MemtableSize: 128 << 10}
	if change != nil {
		change(opts)
	}
	db, err := stoat.Open(dbDir, opts)
	must(t, err)
	return db
}

// setAll gives keys [from, to) values of size bytes in batches.
func setAll(t *testing.T, db *stoat.DB, from, to, size int, fill byte) {
	t.Helper()
	value := make([]byte, size)
	for i := range value {
		value[i] = fill
	}
	for from < to {
		must(t, db.Update(func(tx *stoat.Txn) error {
			for end := min(from+50, to); from < end; from++ {
				if err := tx.Set(treeKey(from), value); err != nil {
					return err
				}
			}
			return nil
		}, stoat.WithDurability(stoat.Buffered)))
	}
}

func deleteAll(t *testing.T, db *stoat.DB, from, to int) {
	t.Helper()
	must(t, db.Update(func(tx *stoat.Txn) error {
		for ; from < to; from++ {
			if err := tx.Delete(treeKey(from)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestCompactLeavesNothingOfWhatWasDeletedOrOverwritten(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	for round := range 3 {
		setAll(t, db, 0, 2000, 100, byte(round))
		setAll(t, db, 2000, 2300, 2000, byte(round)) // in value files
	}
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
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
	deleteAll(t, db, 0, 2300)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if s := db.Stats(); s.Tables != 0 || s.Values != 0 || s.GarbageFiles != 0 {
		t.Errorf("after everything was deleted there are %d tables, %d value files, %d files of garbage", s.Tables, s.Values, s.GarbageFiles)
	}
	must(t, db.Close())
}

func TestCollectGivesBackWhatIsTooLittleToBeCollectedByItself(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 1000, 2000, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	const gone = 50 // one of so many, so that no file has much garbage
	for i := 0; i < 1000; i += gone {
		deleteAll(t, db, i, i+1)
	}
	// A range, so that it merges and does not collect.
	must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte{0}}))
	before := db.Stats()
	if before.ValueGarbage == 0 {
		t.Fatal("there is nothing to collect")
	}
	must(t, db.Collect(t.Context()))
	after := db.Stats()
	if after.ValueGarbage != 0 || after.ValueBytes >= before.ValueBytes {
		t.Errorf("%d bytes of value files with %d of garbage became %d with %d",
			before.ValueBytes, before.ValueGarbage, after.ValueBytes, after.ValueGarbage)
	}
	must(t, db.View(func(tx *stoat.Txn) error {
		for i := range 1000 {
			v, err := tx.Get(treeKey(i))
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
	must(t, db.Close())
}

func TestCompactRemovesVersionsThatASnapshotNeededEarlier(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 1000, 100, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // into a table, which the snapshot holds
	tx := begin(t, db, stoat.ReadOnly)
	setAll(t, db, 0, 1000, 100, 2)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	both := db.Stats().TableBytes
	if v, err := tx.Get(treeKey(500)); err != nil || v[0] != 1 {
		t.Fatalf("the snapshot sees %v, error %v", v, err)
	}
	if s := db.Stats(); s.GarbageFiles == 0 || s.GarbageBytes == 0 || s.GarbageAge == 0 {
		t.Errorf("while a transaction holds replaced files: %d files, %d bytes, %v", s.GarbageFiles, s.GarbageBytes, s.GarbageAge)
	}
	tx.Discard()
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	s := db.Stats()
	if s.TableBytes > both*6/10 {
		t.Errorf("%d bytes of two versions became %d of one", both, s.TableBytes)
	}
	compactions := s.Compactions
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if again := db.Stats().Compactions; again != compactions {
		t.Errorf("a second Compact found %d jobs more", again-compactions)
	}
	must(t, db.Close())
}

func TestCompactOfARangeLeavesOtherKeysAlone(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 4000, 100, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	// So few deletions stay in level 0 of themselves.
	for _, half := range []int{0, 2000} {
		must(t, db.Update(func(tx *stoat.Txn) error {
			for i := half; i < half+2000; i += 10 {
				if err := tx.Delete(treeKey(i)); err != nil {
					return err
				}
			}
			return nil
		}))
		must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("a"), Upper: []byte("b")}))
	}
	before := db.Stats()
	must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: treeKey(0), Upper: treeKey(1500)}))
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
	must(t, db.Close())
}

func TestCompactTellsItsProgress(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 5000, 100, 1)
	var last stoat.CompactProgress
	calls := 0
	must(t, db.Compact(t.Context(), stoat.CompactOptions{Progress: func(p stoat.CompactProgress) {
		if p.Done < last.Done || p.Total < p.Done {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
		calls++
	}}))
	if calls == 0 || last.Done != last.Total {
		t.Errorf("after %d calls: %+v", calls, last)
	}
	must(t, db.Close())
}

func TestCompactEndsWithItsContextAndWithClose(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 5000, 100, 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Compact(ctx, stoat.CompactOptions{Progress: func(stoat.CompactProgress) { cancel() }})
	wantError(t, "Compact with a context that ended", err, context.Canceled)
	setAll(t, db, 0, 5000, 100, 2)
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
		wantError(t, "Compact of a database that is being closed", err, stoat.ErrClosed)
	}
	must(t, <-closed)
	wantError(t, "Compact after Close", db.Compact(t.Context(), stoat.CompactOptions{}), stoat.ErrClosed)
}

func TestCompactTakesTurnsWithWritersAndTheCompactor(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for round := range 6 {
			setAll(t, db, 0, 1500, 700, byte(round))
		}
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	mustBeSound(t, db)
	must(t, db.View(func(tx *stoat.Txn) error {
		for i := range 1500 {
			if v, err := tx.Get(treeKey(i)); err != nil || len(v) != 700 || v[0] != 5 {
				t.Fatalf("key %d: %d bytes, %v", i, len(v), err)
			}
		}
		return nil
	}))
	must(t, db.Close())
}
