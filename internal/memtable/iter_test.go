package memtable

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/iter"
)

// TestIterator_ShowsTheTableAsItWas opens iterators at many moments, lets their
// runs be merged away, and reads them at the end.
func TestIterator_ShowsTheTableAsItWas(t *testing.T) {
	t.Parallel()
	r := rng(t, 0)
	mem := newCounting()
	table := New(Options{Memory: mem, TailMax: 2500})
	txn := New(Options{Memory: mem})
	type opened struct {
		it    *Iter
		count int
	}
	var all []opened
	n, places := 0, r.Perm(20_000)
	for seq := base.SeqNum(1); n < len(places); seq++ {
		size := min(1+r.IntN(2500), len(places)-n)
		for _, p := range places[n : n+size] {
			k := fmt.Appendf(nil, "%08d", p)
			if err := txn.Set(k, k, hashOf(k), base.Meta{Kind: base.KindSet}, 0); err != nil {
				t.Fatal(err)
			}
		}
		n += size
		if err := table.AppendTable(txn, seq, nil); err != nil {
			t.Fatal(err)
		}
		txn.Reset()
		it := &Iter{}
		it.Init(table, seq%2 == 0)
		all = append(all, opened{it, n})
	}
	for i, o := range all {
		want := slices.Clone(places[:o.count])
		slices.Sort(want)
		if o.it.reverse {
			slices.Reverse(want)
		}
		o.it.Seek(nil)
		got := drain(t, o.it, iter.BatchSize, 1<<30)
		if len(got) != len(want) {
			t.Fatalf("iterator %d shows %d entries, want %d", i, len(got), len(want))
		}
		for j := range got {
			if string(got[j].key) != fmt.Sprintf("%08d", want[j]) {
				t.Fatalf("iterator %d, entry %d is %q, want %08d", i, j, got[j].key, want[j])
			}
		}
		o.it.Close()
	}
	before := mem.held()
	var it Iter
	for range 3 { // the first reader pays for the runs, the second one merges them
		it.Init(table, false)
		it.Seek(nil)
		drain(t, &it, iter.BatchSize, 1<<30)
		it.Close()
	}
	if len(table.runs.held.blocks) > 1 || mem.held() > before {
		t.Fatalf("a table at rest keeps %d runs, %d bytes more", len(table.runs.held.blocks), mem.held()-before)
	}
	table.Release()
	txn.Release()
	if mem.held() != 0 {
		t.Fatalf("%d bytes are held after Release", mem.held())
	}
}

// TestIterator_DoesNotShowLaterOverwrites overwrites keys under an open iterator
// of a transaction's own table.
func TestIterator_DoesNotShowLaterOverwrites(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	for i := range 100 {
		set(t, table, fmt.Sprintf("%03d", i), "old", 0)
	}
	var before, after Iter
	before.Init(table, false)
	for i := range 100 {
		set(t, table, fmt.Sprintf("%03d", i), "middle", 0)
		set(t, table, fmt.Sprintf("%03d", i), "new", 0)
	}
	set(t, table, "extra", "new", 0)
	after.Init(table, true)
	for _, c := range []struct {
		it    *Iter
		count int
		value string
	}{{&before, 100, "old"}, {&after, 101, "new"}} {
		c.it.Seek(nil)
		got := drain(t, c.it, 10, 1000)
		if len(got) != c.count {
			t.Fatalf("%d entries, want %d", len(got), c.count)
		}
		for _, e := range got {
			if string(e.value) != c.value {
				t.Fatalf("%s is %s, want %s", e.key, e.value, c.value)
			}
		}
		c.it.Close()
	}
	if table.Len() != 301 || table.LiveLen() != 101 {
		t.Fatalf("%d entries, %d of them live", table.Len(), table.LiveLen())
	}
}

// TestIterator_UnclosedDoesNotOutliveTheTable releases a table before it closes
// an iterator of it.
func TestIterator_UnclosedDoesNotOutliveTheTable(t *testing.T) {
	t.Parallel()
	mem := newCounting()
	table := New(Options{Memory: mem})
	var its [2]Iter
	for i := range its {
		for j := range 5000 {
			set(t, table, fmt.Sprint(i, j), "", base.SeqNum(1+i))
		}
		its[i].Init(table, false)
	}
	table.Release()
	if mem.held() != 0 {
		t.Fatalf("%d bytes are held after Release", mem.held())
	}
	for i := range its {
		its[i].Close()
		its[i].Close()
	}
}

func TestReset_ManglesBorrowedBytes(t *testing.T) {
	t.Parallel()
	if !invariant.Enabled {
		t.Skip("invariants are off")
	}
	table := New(Options{})
	set(t, table, "key", "value", 0)
	v, _, _, _ := table.Get([]byte("key"), hashOf([]byte("key")), 0)
	table.Reset()
	if string(v) == "value" {
		t.Fatal("a borrowed value survived Reset")
	}
	if table.Len() != 0 || table.LiveLen() != 0 || table.DataBytes() != 0 || table.Keys() != 0 {
		t.Fatal("a reset table is not empty")
	}
	if _, _, _, ok := table.Get([]byte("key"), hashOf([]byte("key")), 0); ok {
		t.Fatal("a reset table has a key")
	}
}

// TestAllocs_SteadyWorkAllocatesNothing lists what must not allocate on the Go
// heap.
func TestAllocs_SteadyWorkAllocatesNothing(t *testing.T) {
	table := New(Options{SizeHint: 20_000})
	txn := New(txnOptions())
	for i := range 10 {
		benchTxn(t, txn, 1000*i, 1000)
		if err := table.AppendTable(txn, base.SeqNum(i+1), nil); err != nil {
			t.Fatal(err)
		}
		txn.Reset()
	}
	var it Iter
	var b iter.Batch
	key := benchKey(nil, 17)
	hash := hashOf(key)
	seq := base.SeqNum(100)
	for _, c := range []struct {
		name string
		work func()
	}{
		{"get", func() {
			if _, _, _, ok := table.Get(key, hash, seq); !ok {
				t.Fatal("not found")
			}
		}},
		{"seek and fill", func() {
			b.Want = 10
			it.Init(table, false)
			it.Seek(key)
			if err := it.Fill(&b); err != nil || b.N != 10 {
				t.Fatal(b.N, err)
			}
			it.Close()
		}},
		{"a transaction of one write", func() {
			if err := txn.Set(key, nil, hash, base.Meta{Kind: base.KindSet}, 0); err != nil {
				t.Fatal(err)
			}
			seq++
			if err := table.AppendTable(txn, seq, nil); err != nil {
				t.Fatal(err)
			}
			txn.Reset()
		}},
		{"entries and newer", func() {
			n := 0
			for e := range table.Entries {
				n += len(e.Key)
			}
			table.Newer(0, func(hash uint32, _ Ref) bool { n += int(hash); return true })
			if n == 0 {
				t.Fatal("nothing")
			}
		}},
	} {
		if n := testing.AllocsPerRun(100, c.work); n != 0 && !invariant.Enabled { // invariants allocate
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
