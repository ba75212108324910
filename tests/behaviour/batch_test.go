package behaviour

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// sizeOf is the size of a write of a key from testkit.Key with so many bytes of value.
func sizeOf(value int) int64 { return int64(len(testkit.Key(0)) + value + 32) }

// count returns the number of keys that readers see, and their newest version.
func count(t *testing.T, db *stoat.DB) (keys int, version uint64) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for range tx.All() {
			keys++
		}
		version = tx.ReadVersion()
		return tx.Err()
	}))
	return keys, version
}

func TestBatch_IsOneCommitUpToItsSize(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{Size: 100 * sizeOf(50)})
	for i := range 100 {
		testkit.Must(t, b.Set(testkit.Key(i), make([]byte, 50)))
	}
	if keys, version := count(t, db); keys != 0 || version != 0 {
		t.Fatalf("before the commit, readers see %d keys at version %d", keys, version)
	}
	testkit.Must(t, b.Commit())
	if keys, version := count(t, db); keys != 100 || version != 1 || b.CommitVersion() != 1 {
		t.Errorf("readers see %d keys at version %d, the batch is version %d", keys, version, b.CommitVersion())
	}
	testkit.WantError(t, "a second Commit", b.Commit(), stoat.ErrTxnDone)
	testkit.WantError(t, "Set after Commit", b.Set([]byte("k"), nil), stoat.ErrTxnDone)
	b.Discard()
}

func TestBatch_BeyondItsSizeFailsAndWritesNothing(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{Size: 2*sizeOf(50) - 1})
	testkit.Must(t, b.Set(testkit.Key(0), make([]byte, 50)))
	for what, err := range map[string]error{
		"Set":        b.Set(testkit.Key(1), make([]byte, 50)),
		"a later":    b.Delete(testkit.Key(1)),
		"Commit":     b.Commit(),
		"the second": b.Commit(),
	} {
		testkit.WantError(t, what, err, stoat.ErrBatchTooLarge)
	}
	if keys, version := count(t, db); keys != 0 || version != 0 {
		t.Errorf("readers see %d keys at version %d", keys, version)
	}
	empty := db.NewBatch(stoat.BatchOptions{Size: 1})
	testkit.WantError(t, "a write above the size", empty.Set([]byte("k"), nil), stoat.ErrBatchTooLarge)
}

// Readers beside the batch see whole pieces only, in their order.
func TestBatch_PiecesAreWholeAndInOrder(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	const each, pieces = 10, 300
	ended := make(chan error, 1)
	go func() {
		b := db.NewBatch(stoat.BatchOptions{Size: each * sizeOf(20), Pieces: true})
		for i := range each * pieces {
			if err := b.Set(testkit.Key(i), make([]byte, 20)); err != nil {
				ended <- err
				return
			}
		}
		ended <- b.Commit()
	}()
	seen := map[int]bool{}
	for done := false; !done; {
		select {
		case err := <-ended:
			testkit.Must(t, err)
			done = true
		default:
		}
		keys, version := count(t, db)
		if uint64(keys) != each*version {
			t.Fatalf("at version %d, readers see %d keys, want %d", version, keys, each*version)
		}
		seen[keys] = true
	}
	if keys, _ := count(t, db); keys != each*pieces || len(seen) < 2 {
		t.Errorf("%d keys, seen in %d states", keys, len(seen))
	}
}

func TestBatch_AWriteAboveThePieceSizeIsAPiece(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{Size: 100, Pieces: true})
	for i, n := range []int{10, 5000, 10, 10} {
		testkit.Must(t, b.Set(testkit.Key(i), make([]byte, n)))
	}
	testkit.Must(t, b.Commit())
	if keys, version := count(t, db); keys != 4 || version != 4 {
		t.Errorf("%d keys in %d pieces, want 4 in 4", keys, version)
	}
}

func TestBatch_KeepsExpiryMetadataAndDeletions(t *testing.T) {
	t.Parallel()
	merging := func(o *stoat.Options) {
		o.MergeFunctions, o.MergeFunction = []stoat.MergeFunction{merge.Counter}, merge.Counter.Name()
	}
	for _, pieces := range []bool{false, true} {
		db := testkit.OpenOn(t, memfs.New(), merging)
		testkit.SetKeys(t, db, 0, 20, 10, 'x')
		b := db.NewBatch(stoat.BatchOptions{Size: 1 << 12, Pieces: pieces})
		future := time.UnixMilli(4_000_000_000_000).UTC()
		testkit.Must(t, b.Set([]byte("meta"), []byte("v"), stoat.UserMeta(7), stoat.ExpiresAt(future)))
		testkit.Must(t, b.Set([]byte("expired"), []byte("v"), stoat.TTL(0)))
		testkit.Must(t, b.Delete(testkit.Key(0)))
		testkit.Must(t, b.DeleteRange(testkit.Key(10), testkit.Key(15)))
		testkit.Must(t, b.Set(testkit.Key(12), []byte("again")))
		testkit.Must(t, b.Renew(testkit.Key(1), stoat.ExpiresAt(future)))
		testkit.Must(t, b.Merge([]byte("sum"), merge.Add(40)))
		testkit.Must(t, b.Merge([]byte("sum"), merge.Add(2)))
		testkit.Must(t, b.Commit())
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			item, err := tx.GetItem([]byte("meta"))
			testkit.Must(t, err)
			if item.UserMeta() != 7 || !item.ExpiresAt().Equal(future) {
				t.Errorf("metadata %d, expiry %v", item.UserMeta(), item.ExpiresAt())
			}
			for _, key := range [][]byte{[]byte("expired"), testkit.Key(0), testkit.Key(10), testkit.Key(14)} {
				_, err := tx.Get(key)
				testkit.WantError(t, string(key), err, stoat.ErrNotFound)
			}
			if v, err := tx.Get(testkit.Key(12)); err != nil || string(v) != "again" {
				t.Errorf("what was set after DeleteRange: %q, %v", v, err)
			}
			if item, err = tx.GetItem(testkit.Key(1)); err != nil || !item.ExpiresAt().Equal(future) {
				t.Errorf("the renewed key expires at %v, %v", item.ExpiresAt(), err)
			}
			sum, err := tx.Get([]byte("sum"))
			if err != nil || string(sum) != string(merge.Add(42)) {
				t.Errorf("the sum is %q, %v", sum, err)
			}
			return nil
		}))
		testkit.Must(t, db.Close())
	}
}

func TestBatch_ManyGoroutinesFillOneBatch(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{Size: 5_000, Pieces: true})
	const writers, each = 8, 500
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := b.Set(testkit.Key(w*each+i), []byte("v")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	testkit.Must(t, b.Commit())
	if keys, _ := count(t, db); keys != writers*each {
		t.Errorf("%d keys, want %d", keys, writers*each)
	}
}

// A batch conflicts with nothing, and is a write to what others read.
func TestBatch_NeverConflictsAndMakesReadersConflict(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{})
	testkit.Must(t, b.Set([]byte("k"), []byte("batch")))
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("other")) }))
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	_, err := tx.Get([]byte("k"))
	testkit.Must(t, err)
	testkit.Must(t, tx.Set([]byte("other"), nil))
	testkit.Must(t, b.Commit())
	testkit.WantError(t, "the reader's commit", tx.Commit(), stoat.ErrConflict)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		v, err := tx.Get([]byte("k"))
		if string(v) != "batch" {
			t.Errorf("the value is %q", v)
		}
		return err
	}))
}

// A function without Combine gives a batch no way to shorten a list of operands, and a
// batch does not read.
func TestBatch_ManyOperandsOfOneKeyTakeMorePieces(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		o.MergeFunctions, o.MergeFunction = []stoat.MergeFunction{joining{}}, joining{}.Name()
	})
	b := db.NewBatch(stoat.BatchOptions{Pieces: true})
	for i := range 300 {
		testkit.Must(t, b.Merge([]byte("k"), []byte{byte('a' + i%26)}))
	}
	testkit.Must(t, b.Commit())
	if _, version := count(t, db); version < 3 || version > 6 {
		t.Errorf("%d pieces", version)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		v, err := tx.Get([]byte("k"))
		if len(v) != 300 || !strings.HasPrefix(string(v), "abcdef") {
			t.Errorf("the value has %d bytes: %.20q", len(v), v)
		}
		return err
	}))
	whole := db.NewBatch(stoat.BatchOptions{})
	var err error
	for i := 0; i < 300 && err == nil; i++ {
		err = whole.Merge([]byte("k"), []byte("x"))
	}
	testkit.WantError(t, "operands of a batch in one piece", err, stoat.ErrBatchTooLarge)
	testkit.Must(t, db.Close())
}

// joining appends the operands to the value.
type joining struct{}

func (joining) Name() string { return "joining" }

func (joining) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	dst = append(dst, existing...)
	for _, o := range operands {
		dst = append(dst, o...)
	}
	return dst, nil
}

func TestBatch_WritesToKeyspacesAndAtTimestamps(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	one, versions := keyspace(t, db, "one"), timed(t, db)
	b := db.NewBatch(stoat.BatchOptions{})
	testkit.Must(t, b.Set([]byte("\xffk"), []byte("default")))
	testkit.Must(t, b.In(one).Set([]byte("k"), []byte("one")))
	testkit.Must(t, b.In(versions).At(5).Set([]byte("k"), []byte("five")))
	testkit.Must(t, b.In(versions).At(9).Delete([]byte("k")))
	testkit.Must(t, b.Commit())
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		v, err := tx.Get([]byte("\xffk"))
		w, err2 := tx.In(one).Get([]byte("k"))
		x, err3 := tx.In(versions).At(7).Get([]byte("k"))
		if string(v) != "default" || string(w) != "one" || string(x) != "five" {
			t.Errorf("got %q %v, %q %v, %q %v", v, err, w, err2, x, err3)
		}
		_, err = tx.In(versions).At(9).Get([]byte("k"))
		testkit.WantError(t, "Get at 9", err, stoat.ErrNotFound)
		return nil
	}))
	misused := db.NewBatch(stoat.BatchOptions{})
	testkit.WantError(t, "At without timestamps", misused.In(one).At(5).Delete([]byte("k")), stoat.ErrInvalid)
	testkit.WantError(t, "the commit after it", misused.Commit(), stoat.ErrInvalid)
}

// A piece that fails in the pipeline ends the batch: no later piece is committed.
func TestBatch_ThePieceAfterAFailedOneIsNotCommitted(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	doomed := keyspace(t, db, "doomed")
	b := db.NewBatch(stoat.BatchOptions{Size: 4 * sizeOf(0), Pieces: true})
	for i := range 4 {
		testkit.Must(t, b.Set(testkit.Key(i), nil))
	}
	testkit.Must(t, b.In(doomed).Set([]byte("k"), nil)) // commits the piece before
	testkit.Must(t, db.DropKeyspace("doomed"))
	var err error
	for i := 4; i < 1000 && err == nil; i++ {
		err = b.Set(testkit.Key(i), nil)
	}
	testkit.WantError(t, "a later write", err, stoat.ErrNoKeyspace)
	testkit.WantError(t, "Commit", b.Commit(), stoat.ErrNoKeyspace)
	if keys, _ := count(t, db); keys != 4 || b.CommitVersion() == 0 {
		t.Errorf("%d keys, the batch is committed up to version %d", keys, b.CommitVersion())
	}
}

func TestBatch_EndsWithItsContextAndWithTheDatabase(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	ctx, cancel := context.WithCancel(t.Context())
	b, unfinished := db.NewBatchContext(ctx, stoat.BatchOptions{}), db.NewBatch(stoat.BatchOptions{Pieces: true})
	testkit.Must(t, b.Set([]byte("k"), nil))
	testkit.Must(t, unfinished.Set([]byte("k"), nil))
	cancel()
	testkit.WantError(t, "Set", b.Set([]byte("k"), nil), context.Canceled)
	testkit.WantError(t, "Commit", b.Commit(), context.Canceled)
	late := db.NewBatchContext(ctx, stoat.BatchOptions{})
	testkit.WantError(t, "Commit of nothing", late.Commit(), context.Canceled)
	testkit.Must(t, db.Close())
	testkit.WantError(t, "Set after Close", unfinished.Set([]byte("k"), nil), stoat.ErrClosed)
	testkit.WantError(t, "Commit after Close", unfinished.Commit(), stoat.ErrClosed)
	unfinished.Discard()
	empty := db.NewBatch(stoat.BatchOptions{})
	testkit.WantError(t, "Commit of nothing after Close", empty.Commit(), stoat.ErrClosed)
	reader := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.ReadOnly = true })
	refused := reader.NewBatch(stoat.BatchOptions{})
	testkit.WantError(t, "Set", refused.Set([]byte("k"), nil), stoat.ErrReadOnly)
	testkit.WantError(t, "Commit", refused.Commit(), stoat.ErrReadOnly)
	testkit.Must(t, reader.Close())
}

func TestBatch_DiscardDropsWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{Size: 2 * sizeOf(0), Pieces: true})
	for i := range 5 {
		testkit.Must(t, b.Set(testkit.Key(i), nil))
	}
	b.Discard()
	testkit.WantError(t, "Commit", b.Commit(), stoat.ErrTxnDone)
	if keys, version := count(t, db); keys != 4 || version != 2 {
		t.Errorf("%d keys at version %d, want the 4 of 2 pieces", keys, version)
	}
}

// The last piece may be empty. The pieces before it must be durable all the same.
func TestBatch_CommitMakesEveryPieceDurable(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	b := db.NewBatch(stoat.BatchOptions{Size: 2 * sizeOf(0), Pieces: true})
	for i := range 4 {
		testkit.Must(t, b.Set(testkit.Key(i), nil))
	}
	testkit.Must(t, b.DeleteRange([]byte("z"), []byte("z"))) // an empty piece
	testkit.Must(t, b.Commit())
	after := testkit.OpenOn(t, fs.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 1))), nil)
	if keys, _ := count(t, after); keys != 4 {
		t.Errorf("%d keys after a power cut, want 4", keys)
	}
	testkit.Must(t, after.Close())
	testkit.Must(t, db.Close())
}

// A batch that waits keeps neither a snapshot nor obsolete files.
func TestBatch_HoldsNoSnapshot(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	b := db.NewBatch(stoat.BatchOptions{})
	testkit.Must(t, b.Set([]byte("k"), nil))
	testkit.SetKeys(t, db, 0, 2000, 100, 'x')
	testkit.SetKeys(t, db, 0, 2000, 100, 'y')
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	s := db.Stats()
	if s.OldestVersion != s.Version || s.GarbageFiles != 0 || s.Memory.FlushedMemtables != 0 {
		t.Errorf("oldest version %d of %d, %d obsolete files, %d bytes of flushed memtables",
			s.OldestVersion, s.Version, s.GarbageFiles, s.Memory.FlushedMemtables)
	}
	testkit.Must(t, b.Commit())
}

func TestBatch_TakesBoundedMemory(t *testing.T) {
	t.Parallel()
	const memtable, size = 256 << 10, 64 << 10
	db := testkit.OpenOn(t, memfs.NewVolatile(), func(o *stoat.Options) { o.MemtableSize = memtable })
	b := db.NewBatch(stoat.BatchOptions{Size: size, Pieces: true})
	most := int64(0)
	n := testkit.Raced(100_000, 20_000)
	for i := range n {
		testkit.Must(t, b.Set(testkit.Key(i), make([]byte, 20)))
		if i%1000 == 0 {
			m := db.Stats().Memory
			most = max(most, m.Memtables+m.Prepared+m.FlushedMemtables)
		}
	}
	testkit.Must(t, b.Commit())
	if most > 10*memtable {
		t.Errorf("memtables and writes took %d bytes at most, the limit of the test is %d", most, 10*memtable)
	}
	t.Logf("at most %d KiB for %d KiB of writes", most>>10, int64(n)*sizeOf(20)>>10)
	testkit.Must(t, db.Close())
}
