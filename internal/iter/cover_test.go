package iter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// A deletion hides the older versions of the keys in [lo, hi).
type deletion struct {
	lo, hi []byte
	seq    base.SeqNum
}

type deletions []deletion

// over returns the newest deletion over key that is visible at the snapshot at.
func (d deletions) over(key []byte, at base.SeqNum) base.SeqNum {
	newest := base.SeqNum(0)
	for _, r := range d {
		if (r.seq <= at || r.seq == PendingSeq) && bytes.Compare(r.lo, key) <= 0 && bytes.Compare(key, r.hi) < 0 {
			newest = max(newest, r.seq)
		}
	}
	return newest
}

// bounds returns the keys at which the answer of over may change.
func (d deletions) bounds() [][]byte {
	var all [][]byte
	for _, r := range d {
		all = append(all, r.lo, r.hi)
	}
	slices.SortFunc(all, bytes.Compare)
	return slices.CompactFunc(all, bytes.Equal)
}

func randomDeletions(rng *rand.Rand, key func(*rand.Rand) []byte) deletions {
	var d deletions
	for range rng.IntN(8) {
		lo, hi := key(rng), key(rng)
		if bytes.Compare(lo, hi) > 0 {
			lo, hi = hi, lo
		}
		seq := base.SeqNum(1 + rng.IntN(60))
		if rng.IntN(8) == 0 {
			seq = PendingSeq // the transaction's own
		}
		d = append(d, deletion{lo, hi, seq})
	}
	return d
}

// sliceCover is a Cover of deletions. It lends each bound until the next call of
// At, and reports calls against the direction of iteration.
type sliceCover struct {
	t       *testing.T
	from    deletions
	bounds  [][]byte
	at      base.SeqNum
	reverse bool
	asked   int
	last    []byte // the latest key asked for since the last Seek
	lent    []byte
}

func newSliceCover(t *testing.T, d deletions, at base.SeqNum, reverse bool) *sliceCover {
	return &sliceCover{t: t, from: d, bounds: d.bounds(), at: at, reverse: reverse}
}

func (c *sliceCover) At(key []byte) (base.SeqNum, []byte) {
	c.asked++
	if order := bytes.Compare(key, c.last); c.last != nil && (order < 0) != c.reverse && order != 0 {
		c.t.Errorf("asked for %q after %q, reverse %v", key, c.last, c.reverse)
	}
	c.last = bytes.Clone(key)
	for i := range c.lent {
		c.lent[i] = 0xdb
	}
	i, at := slices.BinarySearchFunc(c.bounds, key, bytes.Compare)
	switch {
	case c.reverse && !at:
		i--
	case !c.reverse && at:
		i++
	}
	c.lent = nil
	if i >= 0 && i < len(c.bounds) {
		c.lent = bytes.Clone(c.bounds[i])
	}
	return c.from.over(key, c.at), c.lent
}

// covered returns a source with keys 0000 to 9999 and a Cover that deletes
// [0100, 9900).
func covered(t *testing.T, reverse bool) (*sliceSource, *sliceCover) {
	var entries []base.Entry
	for i := range 10_000 {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "%04d", i), Seq: 3, Meta: base.Meta{Kind: base.KindSet}})
	}
	d := deletions{{[]byte("0100"), []byte("9900"), 4}}
	return newSliceSource(entries, reverse, true), newSliceCover(t, d, 5, reverse)
}

func TestCover_SeeksOverCoveredKeysOfAnOlderSource(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		s, cover := covered(t, reverse)
		var v Visible
		v.Init([]Input{{Source: s, MaxSeq: 3}}, reverse, nil, nil,
			Snapshot{At: 5, Clock: fixedClock(1), Cover: cover})
		n := 0
		for ok := v.Seek(nil); ok; ok = v.Next() {
			n++
		}
		if n != 200 || s.fills > 20 || cover.asked > 3 {
			t.Errorf("reverse %v: %d entries, %d fills, %d questions", reverse, n, s.fills, cover.asked)
		}
	}
}

func TestCover_ReadsASourceThatMayBeNewerThanTheDeletion(t *testing.T) {
	t.Parallel()
	for _, maxSeq := range []base.SeqNum{0, 4, 9} {
		s, cover := covered(t, false)
		s.entries[5000].Seq = 4
		var v Visible
		v.Init([]Input{{Source: s, MaxSeq: maxSeq}}, false, nil, nil,
			Snapshot{At: 5, Clock: fixedClock(1), Cover: cover})
		n := 0
		for ok := v.Seek(nil); ok; ok = v.Next() {
			n++
		}
		if n != 201 {
			t.Errorf("newest %d: %d entries are shown, want 201", maxSeq, n)
		}
	}
}

func TestCover_EndsASourceThatIsCoveredToTheEnd(t *testing.T) {
	t.Parallel()
	s, _ := covered(t, false)
	var v Visible
	v.Init([]Input{{Source: s, MaxSeq: 3}}, false, nil, nil,
		Snapshot{At: 5, Clock: fixedClock(1), Cover: coverAll(4)})
	if v.Seek(nil) || s.fills > 5 {
		t.Errorf("valid %v after %d fills", v.Valid(), s.fills)
	}
}

// coverAll covers every key.
type coverAll base.SeqNum

func (c coverAll) At([]byte) (base.SeqNum, []byte) { return base.SeqNum(c), nil }

// pieces covers every second range of 64 keys.
type pieces struct {
	reverse bool
	buf     []byte
}

func (p *pieces) At(key []byte) (base.SeqNum, []byte) {
	n := 0
	for _, c := range key[len(key)-10:] {
		n = 10*n + int(c-'0')
	}
	piece, bound := n/64, n/64
	if !p.reverse {
		bound++
	}
	p.buf = fmt.Appendf(p.buf[:0], "vsz=00128-k=%010d", bound*64)
	return base.SeqNum(2 * (piece & 1)), p.buf
}

func BenchmarkVisibleCovered(b *testing.B) {
	if invariant.Enabled {
		b.Skip("invariants cost more than what is measured")
	}
	entries := benchEntries(100_000, base.Meta{Kind: base.KindSet})
	for _, reverse := range []bool{false, true} {
		b.Run(fmt.Sprintf("half/reverse=%v", reverse), func(b *testing.B) {
			in := []Input{{Source: newSliceSource(entries, reverse, false)}}
			benchAll(b, in, reverse, Snapshot{At: 5, Cover: &pieces{reverse: reverse}}, len(entries))
		})
	}
}
