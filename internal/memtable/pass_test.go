package memtable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

// passTable returns a table of random versions, in several runs. Large values get chunks
// of their own.
func passTable(t *testing.T, r *rand.Rand, writes int) (*Table, base.SeqNum) {
	table := New(Options{Memory: newCounting(), TailMax: 1 + r.IntN(2*writes)})
	seq := base.SeqNum(1)
	large := make([]byte, chunkMax/ownShare+1)
	for range writes {
		if r.IntN(3) == 0 {
			seq++
		}
		k := fmt.Appendf(nil, "%05d", r.IntN(writes))
		value := []byte("v")
		if r.IntN(500) == 0 {
			value = large
		}
		if err := table.Set(k, value, hashOf(k), base.Meta{Kind: base.KindSet}, seq); err != nil {
			t.Fatal(err)
		}
		if r.IntN(400) == 0 {
			var it Iter // sorts the tail
			it.Init(table, false)
			it.Close()
		}
	}
	return table, seq
}

// TestPass_LeavesOutNothingNewer passes at random places. What follows must have all
// entries beyond the bound and all newer ones.
func TestPass_LeavesOutNothingNewer(t *testing.T) {
	t.Parallel()
	runs := 60
	if testing.Short() {
		runs = 12
	}
	passed := 0
	for run := range runs {
		r := rng(t, uint64(run))
		table, last := passTable(t, r, 200+r.IntN(5000))
		for range 40 {
			reverse := r.IntN(2) == 0
			var it, all Iter
			it.Init(table, reverse)
			all.Init(table, reverse)
			seek := func() []byte { return fmt.Appendf(nil, "%05d", r.IntN(6000)) }
			from, bound, upTo := seek(), seek(), base.SeqNum(r.Uint64N(uint64(last)+2))
			if !reverse && r.IntN(4) == 0 {
				bound = nil
			}
			it.Seek(from)
			all.Seek(from)
			first := r.IntN(50)
			if n := len(drain(t, &it, iter.BatchSize, first)); n != len(drain(t, &all, iter.BatchSize, first)) {
				t.Fatal("two iterators differ")
			}
			it.Pass(bound, upTo)
			got, want := drain(t, &it, iter.BatchSize, 1<<30), drain(t, &all, iter.BatchSize, 1<<30)
			passed += len(want) - len(got)
			for _, w := range want {
				if len(got) > 0 && got[0].seq == w.seq && bytes.Equal(got[0].key, w.key) {
					got = got[1:]
					continue
				}
				beyond := bound != nil && bytes.Compare(w.key, bound) >= 0
				if reverse {
					beyond = bytes.Compare(w.key, bound) < 0
				}
				if beyond || w.seq > upTo {
					t.Fatalf("run %d, reverse %v: Pass(%q, %d) left out %q of version %d", run, reverse, bound, upTo, w.key, w.seq)
				}
			}
			if len(got) > 0 {
				t.Fatalf("run %d, reverse %v: %d entries too many", run, reverse, len(got))
			}
			it.Close()
			all.Close()
		}
		table.Release()
	}
	if passed < 100*runs {
		t.Errorf("only %d entries were passed in %d runs", passed, runs)
	}
}

// TestPass_ReadsNoEntryOfAnOlderPart demands that Pass leads to the first newer entry.
func TestPass_ReadsNoEntryOfAnOlderPart(t *testing.T) {
	t.Parallel()
	table := New(Options{Memory: newCounting()})
	const keys, newer = 100_000, 70_001
	for n := range keys {
		set(t, table, fmt.Sprintf("%08d", n), "v", 1)
	}
	set(t, table, fmt.Sprintf("%08d", newer), "w", 2)
	for _, reverse := range []bool{false, true} {
		var it Iter
		it.Init(table, reverse)
		it.Seek(nil)
		it.Pass(nil, 1)
		got := drain(t, &it, 1, 1)
		if len(got) != 1 || string(got[0].key) != fmt.Sprintf("%08d", newer) || got[0].seq != 2 {
			t.Errorf("reverse %v: at %v", reverse, got)
		}
		it.Close()
	}
}
