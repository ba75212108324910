package model

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIterator_AgreesWithFilteredLists checks every kind of iteration against a
// list made in the simplest way: take all, overlay, filter, reverse.
func TestIterator_AgreesWithFilteredLists(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m, tx := randomMap(rng)
		for range 20 {
			o := randomOptions(rng, tx.Seq)
			want := filtered(m, tx, o)
			var got []Item
			it := tx.Iterator(o)
			for it.Next() {
				got = append(got, it.Item())
			}
			if d := Diff(got, want); d != "" {
				t.Fatalf("seed %d, %+v: %s", seed, o, d)
			}
			key := randomKey(rng)
			from := slices.IndexFunc(want, func(i Item) bool { return o.Reverse == (i.Key < key) || i.Key == key })
			if ok := it.Seek(key); ok != (from >= 0) || ok && it.Item() != want[from] {
				t.Fatalf("seed %d, %+v: seek %q: %v %v, want index %d", seed, o, key, ok, it.Item(), from)
			}
			it.Close()
		}
	}
}

func randomKey(rng *rand.Rand) string { return fmt.Sprintf("%02d", rng.IntN(20)) }

func randomMap(rng *rand.Rand) (*Map, *Txn) {
	version := func() Version {
		return Version{Value: fmt.Sprint(rng.IntN(9)), Deleted: rng.IntN(4) == 0, ExpiresAt: uint64(rng.IntN(3))}
	}
	m := NewMap()
	commits := 1 + rng.IntN(12)
	for range commits {
		writes := make(map[string]Version)
		for range 1 + rng.IntN(4) {
			writes[randomKey(rng)] = version()
		}
		var list []Write
		for key, v := range writes {
			list = append(list, Write{key, v})
		}
		m.Commit(list)
	}
	tx := m.Begin(uint64(rng.IntN(commits+1)), true)
	tx.NowMs = 1
	for range rng.IntN(5) {
		tx.Write(randomKey(rng), version())
	}
	return m, tx
}

func randomOptions(rng *rand.Rand, seq uint64) IterOptions {
	o := IterOptions{Reverse: rng.IntN(2) == 0, AllVersions: rng.IntN(3) == 0}
	if rng.IntN(2) == 0 {
		o.Lower = randomKey(rng)
	}
	if o.Bounded = rng.IntN(2) == 0; o.Bounded {
		o.Upper = randomKey(rng)
	}
	if rng.IntN(3) == 0 {
		o.Prefix = fmt.Sprint(rng.IntN(2))
	}
	if rng.IntN(3) == 0 {
		o.Since = rng.Uint64N(seq + 1)
	}
	return o
}

// filtered is what an iterator with options o must show.
func filtered(m *Map, tx *Txn, o IterOptions) []Item {
	all := m.AllVersions(0, tx.Seq)
	for key, v := range tx.pending {
		v.Seq = 1 << 60 // newer than all, for the sort
		all = append(all, Item{key, v})
	}
	slices.SortStableFunc(all, func(a, b Item) int {
		if a.Key != b.Key {
			if a.Key < b.Key {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Seq, a.Seq)
	})
	var out []Item
	last := ""
	for _, it := range all {
		first := it.Key != last
		last = it.Key
		switch {
		case it.Key < o.Lower, o.Bounded && it.Key >= o.Upper, len(it.Key) < len(o.Prefix), it.Key[:len(o.Prefix)] != o.Prefix:
			continue
		case it.Seq <= o.Since:
			continue
		case !o.AllVersions && (!first || !it.Live(tx.NowMs)):
			continue
		}
		if it.Seq == 1<<60 {
			it.Seq = 0
		}
		out = append(out, it)
	}
	if o.Reverse {
		slices.Reverse(out)
	}
	return out
}

func TestPrefixEnd_IsTheFirstKeyAfter(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"a": "b", "ab": "ac", "a\xff": "b", "a\xfe": "a\xff", "a\x80": "a\x81", "\xff": "", "\xff\xff": "", "\x00": "\x01",
	} {
		if got := PrefixEnd(prefix); got != want {
			t.Errorf("after all with %q comes %q, want %q", prefix, got, want)
		}
	}
}
