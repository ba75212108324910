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

// Each attempt to fold a key collects its whole chain. While attempts fail, they must not take
// the square of the number of versions.
func TestFold_IsTriedLessAndLessOftenWhileItFails(t *testing.T) {
	t.Parallel()
	table, pending := New(Options{}), New(Options{})
	defer table.Release()
	defer pending.Release()
	key, seq, tried, fails := []byte("k"), base.SeqNum(0), 0, true
	write := func(kind base.Kind, times int) (attempts int) {
		t.Helper()
		before := tried
		for range times {
			seq++
			pending.Reset()
			if err := pending.Set(key, []byte("v"), hashOf(key), base.Meta{Kind: kind}, 0); err != nil {
				t.Fatal(err)
			}
			err := table.AppendTable(pending, seq, func(_, _ []byte, _ base.Kind) (whole []byte, m base.Meta, ok bool) {
				tried++
				return []byte("whole"), base.Meta{Kind: base.KindSet}, !fails
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return tried - before
	}
	if n := write(base.KindMerge, 64*foldEvery); n != 7 {
		t.Errorf("%d attempts for %d versions, want 7", n, 64*foldEvery)
	}
	write(base.KindSet, 1)
	fails = false
	if n := write(base.KindMerge, 10*foldEvery); n != 10 {
		t.Errorf("%d attempts after a whole value, want one for each %d versions", n, foldEvery)
	}
	fails = true
	if n := write(base.KindMerge, 10*foldEvery); n > 3 {
		t.Errorf("%d attempts that fail after others did not, want 3 at most", n)
	}
}
