package memtable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// benchItems returns items for all entries of a new table, newest first.
func benchItems(b *testing.B, n int) (*Table, []item) {
	table := benchTable(b, n)
	items := make([]item, 0, n)
	for i := n; i > 0; i-- {
		items = append(items, item{ref: pairRef(table.order.at(uint32(i - 1)))})
	}
	return table, items
}

// benchSort sorts copies of items. The operation is one of them.
func benchSort(b *testing.B, name string, items []item, sort func(work, tmp []item)) {
	n := len(items)
	work, tmp := make([]item, n), make([]item, n)
	b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
		for i := 0; i < b.N; i += n {
			copy(work, items)
			sort(work, tmp)
		}
	})
}

// BenchmarkSort compares the sorter with a sort by comparisons.
func BenchmarkSort(b *testing.B) {
	for _, n := range []int{64, 1 << 10, sortPiece, 350_000} {
		table, items := benchItems(b, n)
		s := sorter{&table.arena}
		benchSort(b, "radix", items, func(work, tmp []item) { s.sort(work, tmp, 0, 0) })
		benchSort(b, "slices", items, func(work, _ []item) {
			shared, _ := s.cache(work, 0)
			slices.SortFunc(work, func(x, y item) int { return s.compare(x, y, shared) })
		})
	}
}

// BenchmarkSortOrdered sorts keys that were written in order, with and without the check for
// that.
func BenchmarkSortOrdered(b *testing.B) {
	for _, n := range []int{1 << 10, sortPiece, 350_000} {
		table, items := New(Options{TailMax: math.MaxInt}), []item(nil)
		for i := range n {
			k := fmt.Appendf(nil, "key-%012d", i)
			if err := table.Set(k, nil, hashOf(k), base.Meta{Kind: base.KindSet}, base.SeqNum(i+1)); err != nil {
				b.Fatal(err)
			}
			items = append(items, item{ref: pairRef(table.order.at(uint32(i)))})
		}
		slices.Reverse(items) // the newest comes first
		s := sorter{&table.arena}
		benchSort(b, "checked", items, func(work, tmp []item) { s.sort(work, tmp, 0, 0) })
		benchSort(b, "radix", items, func(work, tmp []item) {
			shared, _ := s.cache(work, 0)
			s.sortCached(work, tmp, shared, 0)
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	const n = 128 << 10
	r := rand.New(rand.NewPCG(1, 2))
	table := New(Options{})
	var runs [2][]item
	for i := range runs {
		for range n {
			runs[i] = append(runs[i], item{hi: r.Uint64()})
		}
		slices.SortFunc(runs[i], func(x, y item) int {
			if x.hi < y.hi {
				return -1
			}
			return 1
		})
	}
	out := make([]item, 2*n)
	for i := 0; i < b.N; i += len(out) {
		table.mergeItems(out, runs[0], runs[1], 0)
	}
}
