package steps

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A load has left as much garbage in each file as a busy database leaves. An idle one would
// collect it.
func TestDrop_CollectsTheGarbageThatItMakes(t *testing.T) {
	t.Parallel()
	const files, each = 25, 40
	for _, c := range []struct {
		name     string
		lo, hi   []byte
		collects bool
	}{
		{"one key", []byte("000026"), []byte("000027"), false},
		{"one key of each file", []byte("000025"), []byte("000050"), false},
		{"half of all keys", []byte("000500"), nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := openStillWith(t, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable})
			flushValues := func(numbers []int) {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error {
					for _, n := range numbers {
						if err := tx.Set(fmt.Appendf(nil, "%06d", n), bytes.Repeat([]byte("v"), 600)); err != nil {
							return err
						}
					}
					return nil
				}))
				mustFlush(t, db)
			}
			var again []int // a fifth of each file
			for file := range files {
				var numbers []int
				for i := range each {
					numbers = append(numbers, i*files+file)
					if i%5 == 0 {
						again = append(again, i*files+file)
					}
				}
				flushValues(numbers)
			}
			for numbers := range slices.Chunk(again, each) {
				flushValues(numbers)
			}
			mustMergeAll(t, db)
			share, idle := garbageShare(db), db.Engine.Collector.Pick(values.Idle)
			if share < 0.14 || share > 0.18 || idle.Empty() {
				t.Fatalf("%.2f of the values are garbage, an idle database leaves it: %t", share, idle.Empty())
			}
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(c.lo, c.hi) }))
			mustFlush(t, db)
			testkit.Must(t, db.Engine.Manual.Free(t.Context(), c.lo, c.hi))
			if written := db.Stats().CollectedBytes; written > 0 != c.collects {
				t.Errorf("the drop collects: %t, it wrote %d bytes", c.collects, written)
			}
			if share := garbageShare(db); share < 0.05 != c.collects {
				t.Errorf("the drop collects: %t, it left %.2f of the values as garbage", c.collects, share)
			}
		})
	}
}

// A drop cuts the first of two tables of a run. The second is still read through the filter of
// the run.
func TestDrop_OfAFewKeysCutsAWideTableAndKeepsItsFilter(t *testing.T) {
	t.Parallel()
	db := openStillWith(t, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable})
	rng := rand.New(rand.NewPCG(1, 2))
	const keys, from, to = 4000, 1010, 1030
	want := map[string]string{}
	setKeys := func(from, to, step int) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for n := from; n < to; n += step {
				value := noise.Bytes(rng, 200)
				want[string(testkit.Key(n))] = string(value)
				if err := tx.Set(testkit.Key(n), value); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for first := 0; first < keys; first += 100 {
		setKeys(first, first+100, 1)
		mustFlush(t, db)
	}
	mustMergeAll(t, db)
	before := db.Stats()
	lo, hi := testkit.Key(from), testkit.Key(to)
	setKeys(0, keys, 10)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(lo, hi) }))
	mustFlush(t, db)
	run := db.Engine.Store.Version().Levels[0]
	if len(run) != 2 || run[0].Run != run[1].Run || len(run[0].Filter) == 0 || !run[1].StartsAfter(hi) {
		t.Fatalf("%d tables in level 0, want two of a run, the first around the range", len(run))
	}
	testkit.Must(t, db.Engine.Manual.Free(t.Context(), lo, hi))
	if written := db.Stats().CompactedBytes - before.CompactedBytes; written > before.TableBytes/4 {
		t.Errorf("the drop of %d keys wrote %d bytes of %d", to-from, written, before.TableBytes)
	}
	v := db.Engine.Store.Version()
	for level := range manifest.Levels - 1 {
		if n := len(v.Overlapping(level, lo, hi, true)); n > 0 {
			t.Errorf("%d tables of the range in level %d", n, level)
		}
	}
	if n := len(v.Levels[0]); n != 3 {
		t.Errorf("%d tables in level 0, want one on each side of the range, and the one that was not cut", n)
	}
	for _, table := range v.Levels[0] {
		if table.Run != run[0].Run || !slices.Equal(table.Filter, run[0].Filter) {
			t.Errorf("a table of run %d has another filter than run %d", table.Run, run[0].Run)
		}
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for n := range keys {
			value, err := tx.Get(testkit.Key(n))
			gone := errors.Is(err, stoat.ErrNotFound)
			if err != nil && !gone {
				return err
			}
			if gone != (n >= from && n < to) {
				t.Errorf("key %d is gone: %t", n, gone)
			}
			if !gone && string(value) != want[string(testkit.Key(n))] {
				t.Errorf("key %d has an older value", n)
			}
		}
		return nil
	}))
	testkit.MustBeSound(t, db.DB)
}
