package rangedel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// A model is a list of deletions that answers by brute force.
type model []Deletion

// cover is the rule of the package in its plainest form.
func (m model) cover(key []byte, at base.SeqNum) base.SeqNum {
	newest := base.SeqNum(0)
	for _, d := range m {
		if d.Seq <= at && bytes.Compare(d.Lo, key) <= 0 && bytes.Compare(key, d.Hi) < 0 {
			newest = max(newest, d.Seq)
		}
	}
	return newest
}

// keysFor returns makers of keys of different shapes.
var keyMakers = []func(rng *rand.Rand) []byte{
	func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "%02d", rng.IntN(60)) },
	func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "a common prefix/%d", rng.IntN(200)) },
	func(rng *rand.Rand) []byte {
		return bytes.Repeat([]byte{byte(rng.IntN(2)) * 255}, 1+rng.IntN(20))
	},
	func(rng *rand.Rand) []byte {
		k := make([]byte, 1+rng.IntN(3))
		for i := range k {
			k[i] = byte(rng.IntN(3)) * 127
		}
		return k
	},
}

// lastKey is the greatest key.
var lastKey = bytes.Repeat([]byte{0xff}, base.MaxKeySize)

// randomModel returns n deletions with ascending numbers, some of them equal.
// Some ranges are empty, some have no end.
func randomModel(rng *rand.Rand, key func(*rand.Rand) []byte, n int) model {
	var m model
	seq := base.SeqNum(1 + rng.IntN(3))
	for range n {
		d := Deletion{Lo: key(rng), Hi: key(rng), Seq: seq}
		if rng.IntN(8) > 0 && bytes.Compare(d.Lo, d.Hi) > 0 {
			d.Lo, d.Hi = d.Hi, d.Lo
		}
		if rng.IntN(8) == 0 {
			d.Hi = base.EndOfKeys
		}
		m = append(m, d)
		seq += base.SeqNum(rng.IntN(4))
	}
	return m
}

// probes returns keys at, just after and between the bounds.
func (m model) probes(rng *rand.Rand, key func(*rand.Rand) []byte) [][]byte {
	var out [][]byte
	for _, d := range m[:min(len(m), 40)] {
		out = append(out, d.Lo, append(slices.Clone(d.Lo), 0))
		if len(d.Hi) <= base.MaxKeySize {
			out = append(out, d.Hi, append(slices.Clone(d.Hi), 0))
		}
	}
	for range 40 {
		out = append(out, key(rng))
	}
	return append(out, []byte{0}, []byte{0xff, 0xff, 0xff}, lastKey)
}

// moments returns sequence numbers to read at.
func (m model) moments(rng *rand.Rand) []base.SeqNum {
	out := []base.SeqNum{0, base.SeqNumMax}
	for range 6 {
		if len(m) > 0 {
			out = append(out, m[rng.IntN(len(m))].Seq-base.SeqNum(rng.IntN(2)))
		}
	}
	return out
}

// checkList checks that l is valid and answers as m does.
func checkList(t *testing.T, l *List, m model, rng *rand.Rand, key func(*rand.Rand) []byte) {
	t.Helper()
	checkForm(t, l)
	for _, at := range m.moments(rng) {
		for _, k := range m.probes(rng, key) {
			if got, want := l.Cover(k, at), m.cover(k, at); got != want {
				t.Fatalf("Cover(%q, %d) = %d, want %d, of %v", k, at, got, want, []Deletion(m))
			}
		}
	}
}

func checkForm(t *testing.T, l *List) {
	t.Helper()
	var before Fragment
	numbers := 0
	newest, oldest := l.Seqs()
	for i := range l.Len() {
		f := l.At(i)
		touching := bytes.Equal(before.Hi, f.Lo)
		switch {
		case bytes.Compare(f.Lo, f.Hi) >= 0 || bytes.Compare(before.Hi, f.Lo) > 0:
			t.Fatalf("fragment [%q, %q) after one up to %q", f.Lo, f.Hi, before.Hi)
		case len(f.Seqs) == 0 || f.Seqs[0] > newest || f.Seqs[len(f.Seqs)-1] < oldest:
			t.Fatalf("numbers %d within %d to %d", f.Seqs, oldest, newest)
		case touching && slices.Equal(before.Seqs, f.Seqs):
			t.Fatalf("fragments that meet at %q have the same numbers", f.Lo)
		}
		for j := 1; j < len(f.Seqs); j++ {
			if f.Seqs[j-1] <= f.Seqs[j] {
				t.Fatalf("numbers %d do not descend", f.Seqs)
			}
		}
		numbers += len(f.Seqs)
		before = f
	}
	if numbers != l.Numbers() {
		t.Fatalf("Numbers is %d, want %d", l.Numbers(), numbers)
	}
}

// same reports whether two lists have the same fragments.
func same(a, b *List) bool { return bytes.Equal(a.AppendTo(nil), b.AppendTo(nil)) }

// each runs a test on many random models.
func each(t *testing.T, sizes int, test func(t *testing.T, rng *rand.Rand, m model, key func(*rand.Rand) []byte)) {
	t.Helper()
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 0xde1))
		key := keyMakers[rng.IntN(len(keyMakers))]
		m := randomModel(rng, key, rng.IntN(sizes))
		if test(t, rng, m, key); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
