package tree

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// cutsOf returns the cuts of a range, and how many bytes of entries lie between them.
func cutsOf(t *testing.T, v *View, entries []base.Entry, lo, hi []byte, size int64) (cuts [][]byte, largest int64) {
	t.Helper()
	must(t, v.Cuts(lo, hi, 0, size, func(key []byte) bool {
		cuts = append(cuts, key)
		return true
	}))
	for i := range len(cuts) + 1 {
		sum, from, to := int64(0), lo, hi
		if i > 0 {
			from = cuts[i-1]
		}
		if i < len(cuts) {
			to = cuts[i]
		}
		for _, e := range entries {
			if bytes.Compare(e.Key, from) >= 0 && (to == nil || bytes.Compare(e.Key, to) < 0) {
				sum += int64(len(e.Key) + len(e.Value))
			}
		}
		largest = max(largest, sum)
	}
	return cuts, largest
}

func TestCuts_MakePartsOfAboutTheSize(t *testing.T) {
	t.Parallel()
	x := newTestTree(t)
	var all []base.Entry
	for i := range 4000 {
		all = append(all, base.Entry{Key: testKey(i), Value: make([]byte, 100), Seq: 5, Meta: base.Meta{Kind: base.KindSet}})
	}
	x.add(t, 4, 0, all[100:120]) // a smaller level says nothing
	x.add(t, 6, 0, all[:3000])   // one large table and many small ones
	for from := 3000; from < 4000; from += 20 {
		x.add(t, 6, 0, all[from:from+20])
	}
	files := New(x.options())
	v := files.View(&x.version, nil)
	for _, bounds := range [][2][]byte{{nil, nil}, {testKey(500), nil}, {nil, testKey(3500)}, {testKey(1000), testKey(1100)}, {testKey(9), testKey(9)}} {
		cuts, largest := cutsOf(t, v, all, bounds[0], bounds[1], 20<<10)
		if !slices.IsSortedFunc(cuts, bytes.Compare) || len(slices.CompactFunc(slices.Clone(cuts), bytes.Equal)) != len(cuts) {
			t.Errorf("%q: the cuts do not ascend: %q", bounds, cuts)
		}
		for _, key := range cuts {
			if bytes.Compare(key, bounds[0]) <= 0 || bounds[1] != nil && bytes.Compare(key, bounds[1]) >= 0 {
				t.Errorf("%q is cut at %q", bounds, key)
			}
		}
		if largest > 60<<10 {
			t.Errorf("%q: a part has %d bytes", bounds, largest)
		}
	}
	if cuts, _ := cutsOf(t, v, all, nil, nil, 20<<10); len(cuts) < 10 || len(cuts) > 40 {
		t.Errorf("%d cuts of 440 kB", len(cuts))
	}
	if cuts, _ := cutsOf(t, v, all, nil, nil, 1<<30); len(cuts) != 0 {
		t.Errorf("%d cuts for large parts", len(cuts))
	}
	n := 0
	must(t, v.Cuts(nil, nil, 0, 1<<10, func([]byte) bool { n++; return n < 3 }))
	if n != 3 {
		t.Errorf("%d cuts after yield has returned false", n)
	}
	parts := 0
	must(t, v.Cuts(nil, nil, 4, 1<<10, func([]byte) bool { parts++; return true }))
	must(t, v.Cuts(nil, nil, 5, 1<<10, func(key []byte) bool {
		t.Errorf("cut at %q, although nothing is newer than 5", key)
		return false
	}))
	if parts < 100 {
		t.Errorf("%d cuts of tables with anything newer than 4", parts)
	}
	if newer := v.NewerWithin(testKey(0), testKey(9), 5); newer || !v.NewerWithin(testKey(0), testKey(9), 4) {
		t.Error("NewerWithin is wrong")
	}
	must(t, files.Close())
	empty := newTestTree(t)
	v = New(empty.options()).View(&empty.version, nil)
	if cuts, _ := cutsOf(t, v, nil, nil, nil, 1); len(cuts) != 0 || v.NewerWithin(nil, nil, 0) {
		t.Errorf("an empty tree has %d cuts", len(cuts))
	}
}
