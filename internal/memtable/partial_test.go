package memtable

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestPartials_CountsAKeyOnce(t *testing.T) {
	t.Parallel()
	table := New(Options{Memory: Heap(), ChunkSize: 4 << 10})
	pending := New(Options{Memory: Heap(), ChunkSize: 4 << 10})
	defer table.Release()
	defer pending.Release()
	set := func(into *Table, key string, kind base.Kind, seq base.SeqNum) {
		if err := into.Set([]byte(key), nil, base.Hash([]byte(key), 0), base.Meta{Kind: kind}, seq); err != nil {
			t.Fatal(err)
		}
	}
	want := func(lo, hi string, keys uint64) {
		t.Helper()
		gotLo, gotHi, n := table.Partials()
		if n != keys || string(gotLo) != lo || string(gotHi) != hi {
			t.Errorf("%d keys from %q to %q, want %d from %q to %q", n, gotLo, gotHi, keys, lo, hi)
		}
	}
	set(table, "a", base.KindSet, 1)
	want("", "", 0)
	for seq := base.SeqNum(2); seq < 20; seq += 2 {
		set(table, "b", base.KindRenew, seq)
		set(table, "d", base.KindMerge, seq+1)
	}
	want("b", "d", 2)
	set(pending, "c", base.KindMerge, 0)
	set(pending, "e", base.KindMerge, 0)
	for seq := base.SeqNum(20); seq < 30; seq++ {
		if err := table.AppendTable(pending, seq, nil); err != nil {
			t.Fatal(err)
		}
	}
	want("b", "e", 4)
	table.Reset()
	want("", "", 0)
}
