package tree

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
)

// TestPass_LeavesOutNothingNewer passes at random places of a level. What follows must
// have all entries beyond the bound and all newer ones.
func TestPass_LeavesOutNothingNewer(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	passed := 0
	for range 20 {
		space := 1 + rng.IntN(200)
		x := randomTree(t, rng, space)
		files := New(x.options())
		v := files.View(&x.version, nil)
		for range 200 {
			opts := table.IterOptions{Reverse: rng.IntN(2) == 0}
			level := rng.IntN(v.Depth())
			var it, all Iter
			it.Init(v, level, opts)
			all.Init(v, level, opts)
			from, bound := testKey(rng.IntN(space+2)), testKey(rng.IntN(space+2))
			if !opts.Reverse && rng.IntN(4) == 0 {
				bound = nil
			}
			upTo := v.levels[level].newest - base.SeqNum(rng.IntN(3))
			it.Seek(from)
			all.Seek(from)
			first := rng.IntN(30)
			a, b := take(t, &it, first), take(t, &all, first)
			if len(a) != len(b) {
				t.Fatal("two iterators differ")
			}
			if len(a) == 0 || bound != nil && (bytes.Compare(a[len(a)-1].Key, bound) < 0) == opts.Reverse {
				continue // the iterator is beyond the bound already
			}
			it.Pass(bound, upTo)
			got, want := take(t, &it, 1<<30), take(t, &all, 1<<30)
			passed += len(want) - len(got)
			for _, w := range want {
				if len(got) > 0 && got[0].Seq == w.Seq && bytes.Equal(got[0].Key, w.Key) {
					got = got[1:]
					continue
				}
				beyond := bound != nil && bytes.Compare(w.Key, bound) >= 0
				if opts.Reverse {
					beyond = bytes.Compare(w.Key, bound) < 0
				}
				if beyond || w.Seq > upTo {
					t.Fatalf("reverse %v: Pass(%q, %d) left out %q of version %d", opts.Reverse, bound, upTo, w.Key, w.Seq)
				}
			}
			if len(got) > 0 {
				t.Fatalf("reverse %v: %d entries too many", opts.Reverse, len(got))
			}
			it.Close()
			all.Close()
		}
		must(t, files.Close())
	}
	if passed < 1000 {
		t.Errorf("only %d entries were passed", passed)
	}
}

// take returns copies of the next entries, at most limit.
func take(t *testing.T, it *Iter, limit int) (all []base.Entry) {
	t.Helper()
	var b iter.Batch
	for len(all) < limit {
		b.Want = min(iter.BatchSize, limit-len(all))
		must(t, it.Fill(&b))
		if b.N == 0 {
			break
		}
		for i := range b.N {
			all = append(all, base.Entry{Key: bytes.Clone(b.Entries[i].Key), Seq: b.Entries[i].Seq})
		}
	}
	return all
}
