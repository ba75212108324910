package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const estimatedKeys = 20_000

// evenKeys writes keys with values of two lengths, the longer ones in value files.
func evenKeys(t *testing.T, db *stoat.DB, set func(tx stoat.Txn, key, value []byte) error) {
	t.Helper()
	short, long := bytes.Repeat([]byte("s"), 60), bytes.Repeat([]byte("l"), 5000)
	for from := 0; from < estimatedKeys; from += 1000 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) (err error) {
			for i := from; i < from+1000 && err == nil; i++ {
				value := short
				if i%20 == 0 {
					value = long
				}
				err = set(tx, testkit.Key(i), value)
			}
			return err
		}))
	}
}

// A block is less than these keys, and the estimates are good to a block at each bound.
const (
	blockKeys  = 150
	blockBytes = blockKeys * 340
)

// near reports whether two numbers differ by at most a tenth of the second, or by slack.
func near(got int64, want, slack float64) bool {
	return math.Abs(float64(got)-want) <= max(want/10, slack)
}

// checkEstimates compares estimates of ranges and splits with what a keyspace holds.
func checkEstimates(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) {
	t.Helper()
	whole, err := db.EstimateRange(ks, nil, nil)
	if err != nil || !near(whole.Keys, estimatedKeys, 0) {
		t.Fatalf("the estimate of all %d keys is %+v, %v", estimatedKeys, whole, err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		lo, hi := rng.IntN(estimatedKeys), rng.IntN(estimatedKeys)
		lo, hi = min(lo, hi), max(lo, hi)
		e, err := db.EstimateRange(ks, testkit.Key(lo), testkit.Key(hi))
		share := float64(hi-lo) / estimatedKeys
		if err != nil || !near(e.Keys, float64(hi-lo), blockKeys) || !near(e.Bytes, share*float64(whole.Bytes), blockBytes) {
			t.Errorf("the estimate from %d to %d is %+v, %v, of %+v", lo, hi, e, err, whole)
		}
	}
	for _, n := range []int{2, 3, 7, 12} {
		cuts, err := db.SplitRange(ks, testkit.Key(2000), testkit.Key(estimatedKeys-1000), n)
		if err != nil || len(cuts) != n-1 {
			t.Fatalf("split into %d: %d keys, %v", n, len(cuts), err)
		}
		part, last := float64(estimatedKeys-3000)/float64(n), 2000
		for _, key := range append(cuts, testkit.Key(estimatedKeys-1000)) {
			at := last
			for bytes.Compare(testkit.Key(at), key) < 0 {
				at++
			}
			if !near(int64(at-last), part, blockKeys) {
				t.Errorf("split into %d: the part before %q has %d keys, want %v", n, key, at-last, part)
			}
			last = at
		}
	}
}

func TestEstimate_IsNearForSettledData(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 256 << 20 })
	ks, err := db.Keyspace("other", nil)
	testkit.Must(t, err)
	dated := timed(t, db)
	evenKeys(t, db, func(tx stoat.Txn, key, value []byte) error {
		return errors.Join(tx.Set(key, value), tx.In(ks).Set(key, value), tx.In(dated).At(5).Set(key, value))
	})
	for range 2 { // in memory, then in tables
		for _, ks := range []*stoat.Keyspace{nil, ks, dated} {
			checkEstimates(t, db, ks)
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	testkit.Must(t, db.Close())
}

// Keys that differ late have the same fences.
func TestEstimate_KnowsKeysWithLongCommonBeginnings(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, first := range []string{"a", "b"} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) (err error) {
			for i := 0; i < 4000 && err == nil; i++ {
				err = tx.Set(fmt.Appendf(nil, "%s-a-long-beginning-%06d", first, i), make([]byte, 60))
			}
			return err
		}))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	lo, hi := []byte("a-a-long-beginning-001000"), []byte("b-a-long-beginning-002000")
	e, err := db.EstimateRange(nil, lo, hi)
	if err != nil || !near(e.Keys, 5000, 0) {
		t.Errorf("the estimate of 5000 keys is %+v, %v", e, err)
	}
	cuts, err := db.SplitRange(nil, lo, hi, 5)
	if err != nil || len(cuts) != 4 {
		t.Fatalf("cut at %q, %v", cuts, err)
	}
	for i, key := range cuts {
		var first string
		var at int
		if _, err := fmt.Sscanf(string(key)+" ", "%1s-a-long-beginning-%d", &first, &at); err != nil {
			at = 0 // the beginning of a group
		}
		if first == "b" {
			at += 4000
		}
		if want := 1000 + 1000*(i+1); at != 0 && !near(int64(at), float64(want), 2*blockKeys) {
			t.Errorf("cut %d is at %q, want key %d", i, key, want)
		}
	}
}

// The blocks of all tables are damaged, and the estimates need none of them.
func TestEstimate_ReadsNoBlocks(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	evenKeys(t, db, stoatSet)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	damaged := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".table") {
			continue
		}
		f, err := disk.OpenReadWrite(disk.Join(testkit.Dir, name), vfs.CatNone)
		testkit.Must(t, err)
		size, err := f.Size()
		testkit.Must(t, err)
		_, err = f.WriteAt(make([]byte, size/2), 0)
		testkit.Must(t, errors.Join(err, f.Close()))
		damaged++
	}
	db = testkit.OpenOn(t, disk, nil)
	err = db.View(func(tx stoat.Txn) error {
		_, err := tx.Get(testkit.Key(1))
		return err
	})
	if damaged == 0 || !errors.Is(err, stoat.ErrCorrupt) {
		t.Fatalf("%d tables are damaged, and Get returns %v", damaged, err)
	}
	checkEstimates(t, db, nil)
	testkit.Must(t, db.Close())
}

// TestEstimate_ReadsMemtablesBesideCommits shows a missing order to the race detector.
func TestEstimate_ReadsMemtablesBesideCommits(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	var writer sync.WaitGroup
	var ended atomic.Bool
	var failed error
	writer.Go(func() {
		failed = testkit.Times(200, func(i int) error {
			return db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), []byte("value")) }, stoat.WithDurability(stoat.Buffered))
		})
		ended.Store(true)
	})
	errs := make([]error, 2)
	for !ended.Load() && errors.Join(errs...) == nil {
		_, errs[0] = db.EstimateRange(nil, nil, nil)
		_, errs[1] = db.SplitRange(nil, nil, nil, 3)
	}
	writer.Wait()
	testkit.Must(t, errors.Join(append(errs, failed)...))
}

func stoatSet(tx stoat.Txn, key, value []byte) error { return tx.Set(key, value) }

func TestEstimate_MisuseAndEmptyRanges(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	gone, err := db.Keyspace("gone", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.DropKeyspace("gone"))
	other := testkit.OpenMem(t)
	theirs, err := other.Keyspace("theirs", nil)
	testkit.Must(t, err)
	for _, c := range []struct {
		ks   *stoat.Keyspace
		n    int
		want error
	}{{nil, 0, stoat.ErrInvalid}, {nil, -1, stoat.ErrInvalid}, {gone, 2, stoat.ErrNoKeyspace}, {theirs, 2, stoat.ErrInvalid}} {
		_, err := db.SplitRange(c.ks, nil, nil, c.n)
		testkit.WantError(t, fmt.Sprintf("a split into %d", c.n), err, c.want)
	}
	_, err = db.EstimateRange(gone, nil, nil)
	testkit.WantError(t, "an estimate of a dropped keyspace", err, stoat.ErrNoKeyspace)
	for range 2 {
		for _, bounds := range [][2][]byte{{nil, nil}, {testkit.Key(9), testkit.Key(9)}, {testkit.Key(9), testkit.Key(2)}, {nil, {}}, {[]byte("z"), nil}} {
			e, err := db.EstimateRange(nil, bounds[0], bounds[1])
			cuts, err2 := db.SplitRange(nil, bounds[0], bounds[1], 4)
			if err != nil || err2 != nil || e != (stoat.RangeEstimate{}) || len(cuts) > 0 {
				t.Errorf("from %q to %q: %+v, %q, %v, %v", bounds[0], bounds[1], e, cuts, err, err2)
			}
		}
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("a"), []byte("b")) }))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	testkit.Must(t, db.Close())
	_, err = db.EstimateRange(nil, nil, nil)
	testkit.WantError(t, "an estimate of a closed database", err, stoat.ErrClosed)
}
