package tree

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/readset"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/vfs"
)

// A large database has many tables, and most of them are older than every transaction.
func TestConflicts_AsksNoTableOfALevelThatHasNothingNewer(t *testing.T) {
	t.Parallel()
	v := &View{levels: []level{{tables: []*Table{nil}, newest: 5}}}
	var reads readset.Set
	reads.AddKey([]byte("k"), 1)
	if hit, err := v.Conflicts(&reads, 5); hit || err != nil {
		t.Errorf("%t, %v", hit, err)
	}
}

func TestConflicts_OpensNoTableWhoseBoundsHoldNoPartOfTheReads(t *testing.T) {
	t.Parallel()
	x := newTestTree(t)
	x.add(t, 6, 0, []base.Entry{setAt("b", 20)})
	x.add(t, 6, 0, []base.Entry{setAt("f", 20), setAt("h", 20)})
	for n := range x.next {
		must(t, x.fs.Remove(x.fs.Join(x.dir, base.TableName(n+1))))
	}
	files := New(x.options())
	v := files.View(&x.version, nil)
	for _, c := range []struct {
		lo, hi string // one key if there is no hi
		opens  bool
	}{
		{"a", "", false}, {"b", "", true}, {"c", "", false}, {"f", "", true}, {"g", "", true}, {"z", "", false},
		{"a", "b", false}, {"a", "bb", true}, {"c", "f", false}, {"c", "g", true}, {"i", "z", false},
	} {
		var reads readset.Set
		if c.hi == "" {
			reads.AddKey([]byte(c.lo), base.Hash([]byte(c.lo), testSeed))
		} else {
			reads.AddRange([]byte(c.lo), []byte(c.hi))
		}
		if hit, err := v.Conflicts(&reads, 10); hit || isCorrupt(err) != c.opens {
			t.Errorf("%q to %q: %t, %v; want an error of the missing table %t", c.lo, c.hi, hit, err, c.opens)
		}
	}
	must(t, files.Close())
}

// A written is an entry of a conflict tree, or a range tombstone. Its bounds are positions;
// see keyOf.
type written struct {
	lo, hi   int
	seq      base.SeqNum
	deletion bool
}

// keyOf returns the key of a position. Those of even positions are versions with the
// timestamps 3, 2, 1 and 0. No table has an odd position.
func keyOf(position int) []byte {
	key := stamp.Append(nil, testKey(position/8), stampOf(position))
	if position%2 != 0 {
		key = append(key, '!')
	}
	return key
}

func stampOf(position int) uint64 { return uint64(3 - position/2%4) }

// conflictTree makes two runs of level 0 above two levels, each of a few tables, some with a
// range tombstone. Versions of one level are not as new in all of its tables.
func conflictTree(t *testing.T, rng *rand.Rand, space int) (x *testTree, all []written) {
	x = newTestTree(t)
	newest := base.SeqNum(400)
	for _, at := range []struct {
		level int
		run   uint64
	}{{0, 9}, {0, 4}, {3, 0}, {6, 0}} {
		newest -= 100
		from, tables := 0, 1+rng.IntN(5)
		for i := range tables {
			to := space * (i + 1) / tables
			seq := newest + base.SeqNum(10*rng.IntN(9))
			var entries []base.Entry
			for p := from + from%2; p < to; p += 2 {
				for n := base.SeqNum(rng.IntN(3)); n > 0; n-- {
					entries = append(entries, base.Entry{Key: keyOf(p), Seq: seq + n, Meta: base.Meta{Kind: base.KindSet}})
					all = append(all, written{lo: p, hi: p + 1, seq: seq + n})
				}
			}
			switch {
			case from < to && rng.IntN(4) == 0:
				lo := from + rng.IntN(to-from)
				hi := lo + 1 + rng.IntN(to-lo)
				x.addDeletion(t, at.level, at.run, string(keyOf(lo)), string(keyOf(hi)), seq+5, entries...)
				all = append(all, written{lo: lo, hi: hi, seq: seq + 5, deletion: true})
			case len(entries) > 0:
				x.add(t, at.level, at.run, entries)
			}
			from = to + rng.IntN(3) // a gap between tables
		}
	}
	return x, all
}

// A reading is what a transaction has read: positions up to a timestamp.
type reading struct {
	lo, hi int
	upTo   uint64
}

// addRandom adds a few keys, ranges and ranges at timestamps to reads.
func addRandom(reads *readset.Set, rng *rand.Rand, space int) (all []reading) {
	for range rng.IntN(4) * rng.IntN(6) {
		p := rng.IntN(space + 4)
		key := keyOf(p)
		reads.AddKey(key, base.Hash(key, testSeed))
		all = append(all, reading{p, p + 1, math.MaxUint64})
	}
	for range rng.IntN(4) * rng.IntN(2) {
		g := reading{lo: rng.IntN(space + 4), upTo: uint64(rng.IntN(4))}
		g.hi = g.lo + 1 + rng.IntN(8)
		lo, hi := keyOf(g.lo), keyOf(g.hi)
		if rng.IntN(20) == 0 {
			g.hi, hi = math.MaxInt, nil
		}
		if rng.IntN(2) == 0 {
			reads.AddRangeAt(lo, hi, g.upTo)
		} else {
			g.upTo = math.MaxUint64
			reads.AddRange(lo, hi)
		}
		all = append(all, g)
	}
	return all
}

func TestConflicts_AreThoseOfEachWriteWithEachRead(t *testing.T) {
	t.Parallel()
	answers := map[bool]int{}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 12))
		space := 1 + rng.IntN(150)
		x, writes := conflictTree(t, rng, space)
		if len(x.tables()) == 0 {
			continue
		}
		files := New(x.options())
		v := files.View(&x.version, nil)
		for range 200 {
			var reads readset.Set
			all := addRandom(&reads, rng, space)
			since := base.SeqNum(rng.IntN(400))
			want := false
			for _, w := range writes {
				for _, r := range all {
					want = want || w.seq > since && w.lo < r.hi && r.lo < w.hi && (w.deletion || stampOf(w.lo) <= r.upTo)
				}
			}
			got, err := v.Conflicts(&reads, since)
			must(t, err)
			if got != want {
				t.Fatalf("seed %d since %d: conflict %t, want %t of %+v with %+v", seed, since, got, want, all, writes)
			}
			answers[got]++
		}
		must(t, files.Close())
	}
	if answers[true] < 1000 || answers[false] < 1000 {
		t.Errorf("too few answers of a kind: %v", answers)
	}
}

// BenchmarkConflicts checks a transaction that has read keys, given their number, against
// a level of 200 tables of 10,000 keys. Each table has one newer key, which was not read.
func BenchmarkConflicts(b *testing.B) {
	const tables, perTable = 200, 10_000
	x := &testTree{fs: vfs.OS(), dir: b.TempDir(), seed: testSeed}
	for i := range tables {
		entries := make([]base.Entry, perTable)
		for j := range entries {
			entries[j] = base.Entry{Key: putBenchKey(nil, i*perTable+j), Seq: 1, Meta: base.Meta{Kind: base.KindSet}}
		}
		entries[0].Seq = 9
		x.add(b, 6, 0, entries)
		x.entries = nil
	}
	files := New(x.options())
	v := files.View(&x.version, nil)
	for _, n := range []int{3, 1_000_000} {
		rng := rand.New(rand.NewPCG(1, 2))
		var reads readset.Set
		for range n {
			key := putBenchKey(nil, rng.IntN(tables)*perTable+1+rng.IntN(perTable-1))
			reads.AddKey(key, base.Hash(key, testSeed))
		}
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if hit, err := v.Conflicts(&reads, 5); hit || err != nil {
					b.Fatal(hit, err)
				}
			}
		})
	}
	must(b, files.Close())
}
