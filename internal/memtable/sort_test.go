package memtable

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestSort_AnyKeys(t *testing.T) {
	t.Parallel()
	makers := append([]keyMaker{
		{"equal", nil, nil},
		{"equal in front", nil, nil},
	}, keyMakers...)
	for run, maker := range makers {
		t.Run(maker.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(run))
			for _, n := range []int{1, 2, insertionMax, insertionMax + 1, 100, 1000, 6000} {
				sortKeys(t, n, func(int) []byte {
					switch maker.name {
					case "equal":
						return []byte("the same key, always")
					case "equal in front":
						return fmt.Appendf(bytes.Repeat([]byte("x"), 300), "%05d", r.IntN(n))
					}
					return maker.make(r)
				})
			}
		})
	}
}

func TestSort_KeysThatAreOrderedOrNearly(t *testing.T) {
	t.Parallel()
	arrangements := []struct {
		name    string
		arrange func(keys []int, at int)
	}{
		{"ascending", func([]int, int) {}},
		{"descending", func(keys []int, _ int) { slices.Reverse(keys) }},
		{"one pair swapped", func(keys []int, at int) { keys[at], keys[at+1] = keys[at+1], keys[at] }},
		{"descending, one pair swapped", func(keys []int, at int) {
			slices.Reverse(keys)
			keys[at], keys[at+1] = keys[at+1], keys[at]
		}},
		{"one key twice", func(keys []int, at int) { keys[at] = keys[at+1] }},
		{"descending, one key twice", func(keys []int, at int) {
			slices.Reverse(keys)
			keys[at] = keys[at+1]
		}},
	}
	for run, a := range arrangements {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(run))
			for _, n := range []int{2, insertionMax, insertionMax + 1, 100, 1000} {
				for _, at := range []int{0, n - 2, r.IntN(n - 1)} {
					keys := make([]int, n)
					for i := range keys {
						keys[i] = i
					}
					a.arrange(keys, at)
					deep := r.IntN(2) == 0 // the cached bytes tell only some keys apart
					sortKeys(t, n, func(i int) []byte {
						if deep {
							return fmt.Appendf(nil, "%c the same in all %06d", 'a'+rune(keys[i]/500), keys[i])
						}
						return fmt.Appendf(nil, "%06d", keys[i])
					})
				}
			}
		})
	}
}

// sortKeys writes n keys to a table, sorts them, and checks the run.
func sortKeys(t *testing.T, n int, key func(i int) []byte) {
	t.Helper()
	table := New(Options{TailMax: math.MaxInt})
	for i := range n {
		k := key(i)
		if err := table.Set(k, nil, hashOf(k), base.Meta{Kind: base.KindSet}, base.SeqNum(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	sorted, err := table.sortTail(0, uint32(n))
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, table, sorted, n)
}

// checkRun checks the order of a run and all that it caches.
func checkRun(t *testing.T, table *Table, r *run, n int) {
	t.Helper()
	if len(r.items) != n {
		t.Fatalf("%d items, want %d", len(r.items), n)
	}
	for i, it := range r.items {
		key := table.Key(it.ref)
		if !bytes.HasPrefix(key, r.shared) {
			t.Fatalf("key %q does not begin with %q", key, r.shared)
		}
		want := item{ref: it.ref}
		want.setPrefix(key[len(r.shared):])
		if it != want {
			t.Fatalf("item %d of key %q is %+v, want %+v", i, key, it, want)
		}
		if i == 0 {
			continue
		}
		before := r.items[i-1].ref
		c := bytes.Compare(table.Key(before), key)
		if c > 0 || c == 0 && table.Seq(before) <= table.Seq(it.ref) {
			t.Fatalf("%q at %d before %q at %d", table.Key(before), table.Seq(before), key, table.Seq(it.ref))
		}
	}
}

func TestRadix_SortsStablyByTheBitsItReports(t *testing.T) {
	t.Parallel()
	r := rng(t, 0)
	for _, mask := range []uint64{1, 1 << 63, 0x0f0f0f0f0f0f0f0f, math.MaxUint64, 0xff, 0xff << 56, 0x8000000000000001, 0x5555555555555555} {
		for _, n := range []int{2, 30, 300, 5000} {
			items := make([]item, n)
			for i := range items {
				items[i] = item{hi: r.Uint64()&mask | 0x2020202020202020&^mask, ref: Ref(i)}
			}
			varying := varyingBits(items)
			if varying&^mask != 0 {
				t.Fatalf("bits %x vary, want some of %x", varying, mask)
			}
			if varying == 0 {
				continue
			}
			want := slices.Clone(items)
			looked := radix(items, make([]item, n), varying)
			if looked == 0 || looked&^varying != 0 || bits.LeadingZeros64(looked) != bits.LeadingZeros64(varying) {
				t.Fatalf("looked at %x of %x", looked, varying)
			}
			slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.hi&looked, b.hi&looked) })
			if !slices.Equal(items, want) {
				t.Fatalf("%d items with bits %x are out of order", n, mask)
			}
		}
	}
}

func TestMerge_ReturnsAValidRun(t *testing.T) {
	t.Parallel()
	for run, maker := range keyMakers {
		t.Run(maker.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(run))
			for range 20 {
				table := New(Options{TailMax: math.MaxInt})
				a, b := r.IntN(100)+1, r.IntN(3000)+1
				for i := range a + b {
					k := maker.make(r)
					if r.IntN(2) == 0 && i < a {
						// Share less in one run than in the other.
						k = append([]byte("user:0000"), k...)
					}
					if err := table.Set(k, nil, hashOf(k), base.Meta{Kind: base.KindSet}, base.SeqNum(i+1)); err != nil {
						t.Fatal(err)
					}
				}
				x, err := table.sortTail(0, uint32(a))
				if err != nil {
					t.Fatal(err)
				}
				y, err := table.sortTail(uint32(a), uint32(a+b))
				if err != nil {
					t.Fatal(err)
				}
				merged, err := table.merge(x, y)
				if err != nil {
					t.Fatal(err)
				}
				checkRun(t, table, merged, a+b)
			}
		})
	}
}

func TestMergePolicy_GroupsRunsThatAreTooShort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy mergePolicy
		sizes  []int
		from   int
	}{
		{mergePolicy{2, 1000, 0}, nil, 0},
		{mergePolicy{2, 1000, 0}, []int{10}, 0},
		{mergePolicy{2, 1000, 0}, []int{20, 10}, 1},
		{mergePolicy{2, 1000, 0}, []int{19, 10}, 0},
		{mergePolicy{2, 1000, 0}, []int{100, 19, 10}, 1},
		{mergePolicy{2, 1000, 0}, []int{57, 19, 10}, 0},
		{mergePolicy{2, 1000, 0}, []int{995, 19, 10}, 1},
		{mergePolicy{2, 1000, 0}, []int{1000, 500, 499}, 1},
		{mergePolicy{math.MaxInt, 1000, 0}, []int{500, 100, 1}, 0},
		{mergePolicy{4, 1000, 0}, []int{500, 120, 31, 1}, 3},
		{mergePolicy{4, 1000, 0}, []int{500, 120, 30, 8}, 0},
	} {
		var list []*run
		for _, n := range c.sizes {
			list = append(list, &run{items: make([]item, n)})
		}
		if got := c.policy.group(list); got != c.from {
			t.Errorf("runs of %v are merged from %d on, want %d", c.sizes, got, c.from)
		}
	}
}
