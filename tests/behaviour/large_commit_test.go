package behaviour

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func largeValue(i int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 5))
	return noise.Bytes(rng, 8<<10+rng.IntN(30<<10))
}

// fillLarge commits n large values, and a short one beside each.
func fillLarge(t *testing.T, db *stoat.DB, n int) {
	t.Helper()
	if err := db.Update(func(tx stoat.Txn) error {
		for i := range n {
			if err := tx.Set(fmt.Appendf(nil, "large-%04d", i), largeValue(i), stoat.UserMeta(byte(i))); err != nil {
				return err
			}
			if err := tx.Set(fmt.Appendf(nil, "short-%04d", i), testkit.LongValue(i)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func checkLarge(t *testing.T, db *stoat.DB, n int) {
	t.Helper()
	err := db.View(func(tx stoat.Txn) error {
		for i := range n {
			item, err := tx.GetItem(fmt.Appendf(nil, "large-%04d", i))
			if err != nil {
				return err
			}
			v, err := item.Value()
			if err != nil || !bytes.Equal(v, largeValue(i)) || item.UserMeta() != byte(i) || item.ValueSize() != int64(len(v)) {
				t.Fatalf("value %d: %d bytes, %v", i, len(v), err)
			}
			if v, err = tx.Get(fmt.Appendf(nil, "short-%04d", i)); err != nil || !bytes.Equal(v, testkit.LongValue(i)) {
				t.Fatalf("short value %d: %v", i, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLargeCommit_ValuesAreWrittenOnceAndSurviveAPowerCut(t *testing.T) {
	t.Parallel()
	const n = 100
	disk := memfs.New()
	opts := &stoat.Options{FS: disk}
	db, err := stoat.Open(testkit.Dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	fillLarge(t, db, n)
	s := db.Stats()
	if s.Values != 1 || s.ApartBytes == 0 || s.Log.BytesWritten > 100<<10 {
		t.Fatalf("%d value files, %d bytes apart, %d in the log", s.Values, s.ApartBytes, s.Log.BytesWritten)
	}
	checkLarge(t, db, n)
	crashed := disk.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 2)))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FS = crashed
	db, err = stoat.Open(testkit.Dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	checkLarge(t, db, n)
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := db.Stats(); s.Values != 1 || s.ValueGarbage != 0 {
		t.Fatalf("%d value files, %d bytes of garbage", s.Values, s.ValueGarbage)
	}
	checkLarge(t, db, n)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLargeCommit_SpaceOfDeletedValuesIsGivenBack(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile()})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := tx.Set(fmt.Appendf(nil, "large-%04d", i), largeValue(i)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	tx.CommitAsync(func(_ uint64, err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx stoat.Txn) error {
		for i := range 100 {
			if err := tx.Delete(fmt.Appendf(nil, "large-%04d", i)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the value file is gone", func() bool { return db.Stats().Values == 0 })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStats_CountEachValueOnce(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
	testkit.Must(t, err)
	before := db.Stats()
	for _, c := range []struct {
		what                       string
		values, size, streamed     int
		committed, apart, overhead int64
	}{
		{"large values, a longer one as a reader", 100, 5000, 2 << 20, 500_000 + 2<<20, 2 << 20, 10_000},
		{"large values that are enough to be written apart", 1000, 5000, 1, 5_000_000, 5_000_000, 100_000},
		{"a large one as a reader", 0, 0, 10 << 20, 10 << 20, 10 << 20, 100_000},
	} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range c.values {
				if err := tx.Set(testkit.Key(i), make([]byte, c.size)); err != nil {
					return err
				}
			}
			return tx.SetReader([]byte("streamed"), strings.NewReader(strings.Repeat("x", c.streamed)))
		}))
		now := db.Stats()
		committed, apart := now.CommittedBytes-before.CommittedBytes, now.ApartBytes-before.ApartBytes
		if committed < c.committed || committed > c.committed+c.overhead || apart < c.apart || apart > c.apart+c.overhead {
			t.Errorf("%s: %d bytes committed and %d apart, want %d and %d", c.what, committed, apart, c.committed, c.apart)
		}
		before = now
	}
	testkit.Must(t, db.Close())
}

func TestLargeCommit_CountsOnlyTheLastValueOfAKey(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	disk := memfs.NewVolatile()
	disk.SetCapacity(256 << 20)
	db := testkit.OpenOn(t, disk, nil)
	overwrite := func(times int) (counted int64) {
		before := db.Stats().CommittedBytes
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			value := noise.Bytes(rand.New(rand.NewPCG(1, 2)), size)
			for i := range times {
				value[0] = byte(i)
				if err := tx.Set([]byte("key"), value); err != nil {
					return err
				}
			}
			if err := tx.Set([]byte("deleted"), value); err != nil {
				return err
			}
			return tx.Delete([]byte("deleted"))
		}))
		return db.Stats().CommittedBytes - before
	}
	// All of them would not fit on the disk.
	if got := overwrite(150); got < size || got > size+1000 {
		t.Errorf("a commit of a value of %d bytes counted %d", size, got)
	}
	if got := overwrite(1); got < size || got > size+1000 {
		t.Errorf("later, a commit of a value of %d bytes counted %d", size, got)
	}
	testkit.Must(t, db.Close())
}
