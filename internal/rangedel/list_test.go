package rangedel

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestList_CoversWhatItsDeletionsCover(t *testing.T) {
	t.Parallel()
	each(t, 40, func(t *testing.T, rng *rand.Rand, m model, key func(*rand.Rand) []byte) {
		checkList(t, Build(m), m, rng, key)
	})
}

func TestList_IsUniqueForASetOfDeletions(t *testing.T) {
	t.Parallel()
	each(t, 30, func(t *testing.T, rng *rand.Rand, m model, _ func(*rand.Rand) []byte) {
		whole := Build(m)
		rng.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
		var parts []*List
		for rest := m; ; {
			n := min(rng.IntN(6), len(rest))
			parts = append(parts, Build(rest[:n]))
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
		before := make([][]byte, len(parts))
		for i, p := range parts {
			before[i] = p.AppendTo(nil)
		}
		if merged := Merge(parts...); !same(merged, whole) {
			t.Errorf("%d lists merge to %x, want %x", len(parts), merged.AppendTo(nil), whole.AppendTo(nil))
		}
		for i, p := range parts {
			if !bytes.Equal(p.AppendTo(nil), before[i]) {
				t.Errorf("merging changed a list")
			}
		}
		checkForm(t, Merge(parts...))
	})
}

func TestClip_CoversWhatIsLeft(t *testing.T) {
	t.Parallel()
	each(t, 30, func(t *testing.T, rng *rand.Rand, m model, key func(*rand.Rand) []byte) {
		lo, hi := key(rng), key(rng)
		if rng.IntN(4) == 0 {
			lo = nil
		}
		if rng.IntN(4) == 0 {
			hi = nil
		}
		clipped := Build(m).Clip(lo, hi)
		checkForm(t, clipped)
		for _, k := range append(m.probes(rng, key), lo, hi) {
			want := m.cover(k, base.SeqNumMax)
			if k == nil || lo != nil && bytes.Compare(k, lo) < 0 || hi != nil && bytes.Compare(k, hi) >= 0 {
				want = 0
			}
			if got := clipped.Cover(k, base.SeqNumMax); got != want {
				t.Fatalf("clipped to [%q, %q), Cover(%q) = %d, want %d", lo, hi, k, got, want)
			}
		}
	})
}

func TestNewer_ShowsTheRangesWithNewerDeletions(t *testing.T) {
	t.Parallel()
	each(t, 30, func(t *testing.T, rng *rand.Rand, m model, key func(*rand.Rand) []byte) {
		than := base.SeqNum(rng.IntN(50))
		var shown model
		Build(m).Newer(than, func(lo, hi []byte) bool {
			shown = append(shown, Deletion{lo, hi, 1})
			return true
		})
		for _, k := range m.probes(rng, key) {
			if got, want := shown.cover(k, 1) != 0, m.cover(k, base.SeqNumMax) > than; got != want {
				t.Fatalf("Newer(%d) shows %q: %v, want %v", than, k, got, want)
			}
		}
	})
}

// Retain must not change what a snapshot sees, and must drop what no snapshot
// uses.
func TestRetain_KeepsTheAnswersOfEverySnapshot(t *testing.T) {
	t.Parallel()
	each(t, 60, func(t *testing.T, rng *rand.Rand, m model, key func(*rand.Rand) []byte) {
		var snapshots []base.SeqNum
		for range 1 + rng.IntN(4) {
			snapshots = append(snapshots, base.SeqNum(rng.IntN(80)))
		}
		slices.Sort(snapshots)
		snapshots = slices.Compact(snapshots)
		bottom := rng.IntN(2) == 0
		l := Build(m)
		kept := l.Retain(snapshots, bottom)
		checkForm(t, kept)
		if got, want := Retained(m, snapshots), l.Retain(snapshots, false); !same(got, want) {
			t.Errorf("Retained gives %x, Retain %x", got.AppendTo(nil), want.AppendTo(nil))
		}
		if again := kept.Retain(snapshots, bottom); !same(kept, again) {
			t.Error("Retain of what was retained drops more")
		}
		last := snapshots[len(snapshots)-1]
		moments := slices.Clone(snapshots)
		for s := last; s < last+40; s += 7 {
			moments = append(moments, s)
		}
		for _, at := range moments {
			for _, k := range m.probes(rng, key) {
				want := m.cover(k, at)
				if bottom && want <= snapshots[0] {
					want = 0
				}
				if got := kept.Cover(k, at); got != want {
					t.Fatalf("snapshots %d, bottom %v: Cover(%q, %d) = %d, want %d", snapshots, bottom, k, at, got, want)
				}
			}
		}
		for i := range kept.Len() {
			for _, s := range kept.At(i).Seqs {
				asked := s > last
				for _, at := range snapshots {
					asked = asked || m.cover(kept.At(i).Lo, at) == s
				}
				if !asked {
					t.Fatalf("%d is kept for none of %d", s, snapshots)
				}
			}
		}
	})
}

func TestList_EmptyIsNil(t *testing.T) {
	t.Parallel()
	var none *List
	lo, hi := none.Bounds()
	newest, oldest := none.Seqs()
	if Build(nil) != nil || Merge() != nil || Merge(nil, nil, nil) != nil || none.Clip(nil, nil) != nil ||
		none.Retain([]base.SeqNum{1}, true) != nil || none.Cover([]byte("k"), base.SeqNumMax) != 0 ||
		none.Len() != 0 || none.Numbers() != 0 || lo != nil || hi != nil || newest != 0 || oldest != 0 {
		t.Error("an empty list has something in it")
	}
	if Build([]Deletion{{[]byte("b"), []byte("a"), 1}, {[]byte("b"), []byte("b"), 2}}) != nil {
		t.Error("a deletion of no key is something")
	}
}
