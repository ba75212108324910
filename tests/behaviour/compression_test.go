package behaviour

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// record returns n bytes of text as a program might store it, which follow from
// i.
func record(i, n int) []byte {
	words := []string{"river", "stone", "market", "window", "letter", "garden", "silver", "winter", "morning", "northern"}
	rng := rand.New(rand.NewPCG(uint64(i), uint64(n)))
	b := fmt.Appendf(make([]byte, 0, n+100), `{"id":"%016x"`, rng.Uint64())
	for len(b) < n {
		b = fmt.Appendf(b, `,"%s":{"name":"%s %s","count":%d,"active":%v}`, words[rng.IntN(10)], words[rng.IntN(10)],
			words[rng.IntN(10)], rng.IntN(10_000), rng.IntN(2) == 0)
	}
	return b[:n]
}

// recordOf is the value of key i: every second lies in a table, the others
// apart, a few of them large.
func recordOf(i int) []byte {
	switch {
	case i%2 == 0:
		return record(i, 200)
	case i%100 == 1:
		return record(i, 20_000)
	}
	return record(i, 1000)
}

// fillRecords commits the records [from, to).
func fillRecords(t testing.TB, db *stoat.DB, from, to int) {
	t.Helper()
	for from < to {
		if err := db.Update(func(tx stoat.Txn) error {
			for end := min(from+100, to); from < end; from++ {
				if err := tx.Set(testkit.Key(from), recordOf(from)); err != nil {
					return err
				}
			}
			return nil
		}, stoat.WithDurability(stoat.Buffered)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkRecords reads the records [0, n) in all ways.
func checkRecords(t *testing.T, db *stoat.DB, n int) {
	t.Helper()
	if err := db.View(func(tx stoat.Txn) error {
		for i := range n {
			v, err := tx.Get(testkit.Key(i))
			if err != nil || !bytes.Equal(v, recordOf(i)) {
				t.Fatalf("key %d: %d bytes, %v", i, len(v), err)
			}
			item, err := tx.GetItem(testkit.Key(i))
			if err != nil || item.ValueSize() != int64(len(v)) {
				t.Fatalf("key %d: %d bytes, %v", i, item.ValueSize(), err)
			}
			r, err := item.Reader()
			testkit.Must(t, err)
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, v) {
				t.Fatalf("key %d: reader of %d bytes, %v", i, len(got), err)
			}
		}
		for _, o := range []stoat.IterOptions{{}, {Reverse: true}, {Prefetch: -1}} {
			it := tx.Iterator(o)
			seen := 0
			for ; it.Next(); seen++ {
				i := seen
				if o.Reverse {
					i = n - 1 - seen
				}
				if !bytes.Equal(it.Key(), testkit.Key(i)) || !bytes.Equal(it.Value(), recordOf(i)) {
					t.Fatalf("%+v at %d: key %q, %d bytes", o, i, it.Key(), len(it.Value()))
				}
			}
			if err := it.Close(); err != nil || seen != n {
				t.Fatalf("%+v: %d keys, want %d, %v", o, seen, n, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	testkit.MustBeSound(t, db)
}

func TestCompression_TakesLessSpace(t *testing.T) {
	t.Parallel()
	n := testkit.Raced(2000, 400)
	var sizes []float64
	for _, c := range testkit.Compressions {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: 256 << 10, Compression: c})
		testkit.Must(t, err)
		fillRecords(t, db, 0, n)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		checkRecords(t, db, n)
		s := db.Stats()
		if int(s.ValueContent) < n/2*1000 || int(s.TableContent) < n/2*200 {
			t.Errorf("compression %d: %d bytes in values, %d in tables, of %d values", c, s.ValueContent, s.TableContent, n)
		}
		sizes = append(sizes, float64(s.TableBytes+s.ValueBytes)/float64(s.TableContent+s.ValueContent))
		if got := s.Memory.Decoded; (got != 0) != (c != stoat.CompressionNone) || got > s.Memory.Budget/8 {
			t.Errorf("compression %d: %d bytes of decoded blocks", c, got)
		}
		testkit.Must(t, db.Checkpoint(t.Context(), "copy"))
		testkit.Must(t, db.Close())
	}
	if sizes[0] < 1 || sizes[1] > 0.6 || sizes[2] > 0.9*sizes[1] {
		t.Errorf("the values take %.2f of their length as they are, %.2f and %.2f compressed", sizes[0], sizes[1], sizes[2])
	}
}

func TestCompression_AnyLevelMayFollowAnyOther(t *testing.T) {
	t.Parallel()
	n := testkit.Raced(400, 30)
	if testing.Short() {
		n = min(n, 100)
	}
	fs := memfs.NewVolatile()
	end := 0
	for i, c := range []stoat.Compression{0, 1, 2, 3, 1, 3, 2, 0, 3} {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, MemtableSize: 64 << 10, Compression: c})
		testkit.Must(t, err)
		checkRecords(t, db, end)
		fillRecords(t, db, end, end+n)
		if end += n; i%2 == 1 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		checkRecords(t, db, end)
		testkit.Must(t, db.Close())
	}
}

func TestCompression_CollectionKeepsCompressedValuesAsTheyAre(t *testing.T) {
	t.Parallel()
	const n = 1000
	opts := &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: 256 << 10, Compression: stoat.CompressionFast}
	db, err := stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	fillRecords(t, db, 0, n)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	before := db.Stats()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(testkit.Key(n/2), nil) }))
	testkit.Must(t, db.Close())
	opts.Compression = stoat.CompressionNone
	db, err = stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	checkRecords(t, db, n/2)
	after := db.Stats()
	if after.Collections == 0 || after.ValueBytes > before.ValueBytes*6/10 {
		t.Errorf("%d collections took %d bytes of values to %d", after.Collections, before.ValueBytes, after.ValueBytes)
	}
	testkit.Must(t, db.Close())
}

// openRecords opens a database of n records, compressed and merged.
func openRecords(t testing.TB, n int) *stoat.DB {
	t.Helper()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), Compression: stoat.CompressionFast})
	if err == nil {
		fillRecords(t, db, 0, n)
		err = db.Compact(t.Context(), stoat.CompactOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestCompression_DecodedValuesStayUntilTheTransactionEnds(t *testing.T) {
	t.Parallel()
	const n = 2000
	db := openRecords(t, n)
	if err := db.View(func(tx stoat.Txn) error {
		var got, walked [][]byte
		for i := range n {
			v, err := tx.Get(testkit.Key(i))
			if err != nil {
				return err
			}
			got = append(got, v)
		}
		for _, v := range tx.All() {
			walked = append(walked, v)
		}
		for i := range n {
			if want := recordOf(i); !bytes.Equal(got[i], want) || !bytes.Equal(walked[i], want) {
				t.Fatalf("value %d has changed since it was borrowed", i)
			}
		}
		return tx.Err()
	}); err != nil {
		t.Fatal(err)
	}
}

// Not parallel: it counts allocations.
func TestCompression_ReadingDecodedValuesAllocatesOnlyTheHandleOfItsView(t *testing.T) {
	const n = 2000
	db := openRecords(t, n)
	i := 0
	var key []byte
	get := func(tx stoat.Txn) error {
		_, err := tx.Get(key)
		return err
	}
	for range n {
		key = testkit.Key(i)
		testkit.Must(t, db.View(get))
		i++
	}
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = testkit.Key(i)
	}
	if allocs := testing.AllocsPerRun(1000, func() {
		if i = (i + 7) % n; i%100 == 1 {
			return // a value that gets memory of its own
		}
		key = keys[i]
		testkit.Must(t, db.View(get))
	}); allocs > 1 && !invariant.Enabled { // which copy what is lent
		t.Errorf("a read allocates %v times", allocs)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		walk := func() {
			it := tx.Iterator(stoat.IterOptions{})
			defer it.Close()
			for it.Next() {
				it.Value()
			}
		}
		walk()
		if perKey := testing.AllocsPerRun(5, walk) / n; perKey > 0.05 && !invariant.Enabled {
			t.Errorf("a walk allocates %.3f times a key", perKey)
		}
		return nil
	}))
}
