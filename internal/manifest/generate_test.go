package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// A generator makes tree changes that can follow a state: those of a flush, a
// compaction, a move or a collection.
type generator struct {
	rng  *rand.Rand
	v    *Version
	e    *Edit
	next base.FileNum
}

// addTreeEdit adds changes of the tables and value files of s to e.
func addTreeEdit(rng *rand.Rand, s State, e *Edit) {
	g := generator{rng: rng, v: s.Version, e: e, next: base.FileNum(max(1, s.NextFile))}
	if g.v == nil {
		g.v = new(Version)
	}
	switch g.rng.IntN(8) {
	case 0, 1:
		g.flush()
	case 2, 3, 4:
		g.compact()
	case 5:
		g.move()
	default:
		g.collect()
	}
	e.NextFile = Some(uint64(g.next) + 1)
}

// treeState returns a state after some edits.
func treeState(rng *rand.Rand, edits int) State {
	s := firstState()
	for range edits {
		var e Edit
		addTreeEdit(rng, s, &e)
		next, err := s.Apply(e)
		if err != nil {
			panic(err)
		}
		s = next
	}
	return s
}

func (g *generator) num() base.FileNum {
	g.next++
	return g.next - 1
}

// table returns a new table without bounds, possibly with values.
func (g *generator) table(level int, run uint64) *Table {
	t := &Table{Num: g.num(), Level: level, Run: run, Size: g.rng.Int64N(1 << 30), Salt: g.rng.Uint64(),
		SmallestSeq: 1, LargestSeq: 1 + base.SeqNum(g.rng.Uint64N(1000)),
		Entries: g.rng.Uint64N(numberMax + 1), Deletions: 2, RangeDeletions: 3, Expiring: 4, Pointers: 5, OldestExpiry: 6,
		NewestExpiry: 7, KeyBytes: 8, ValueBytes: 9, CreatedMs: 10, Jumps: g.rng.Uint64N(3)}
	t.Keys, t.Partials = uint64(t.Num%3), uint64(t.Num%4)
	if t.SeqShift = base.SeqNum(t.Num % 2); t.SeqShift > 0 {
		t.RangeDeletions, g.e.RequiredFeatures = 0, []string{FeatureIngest}
	}
	if t.Num%5 == 0 {
		t.TenthOutdated, t.HalfOutdated = uint64(t.Num), uint64(t.Num%2)*uint64(t.Num+1)
	}
	if t.Num%7 == 0 {
		t.TenthExpired, t.HalfExpired = uint64(t.Num), uint64(t.Num%2)*uint64(t.Num+1)
	}
	var refs []ValueRef
	for _, v := range g.v.Values {
		dropped := slices.Contains(g.e.DropValues, v.Num)
		if !dropped && g.rng.IntN(3) == 0 {
			refs = append(refs, ValueRef{File: v.Num, Bytes: 1 + g.rng.Uint64N(1000)})
		}
	}
	for _, f := range g.e.AddValues {
		refs = append(refs, ValueRef{File: f.Num, Bytes: 1 + g.rng.Uint64N(1000)})
	}
	t.Values = ValueRefsOf(refs...)
	g.e.AddTables = append(g.e.AddTables, t)
	return t
}

// keys returns n different keys in order.
func (g *generator) keys(n int) [][]byte {
	set := map[string]bool{}
	for len(set) < n {
		key := fmt.Sprintf("%03x", g.rng.IntN(1<<12))
		set[key[:2+g.rng.IntN(2)]] = true
	}
	keys := make([][]byte, 0, n)
	for key := range set {
		keys = append(keys, []byte(key))
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// flush adds a run, and possibly a value file to which it refers.
func (g *generator) flush() {
	if g.rng.IntN(2) == 0 {
		num := g.num()
		g.e.AddValues = append(g.e.AddValues, &ValueFile{Num: num, File: num, Size: 1000, Salt: g.rng.Uint64(), ValueBytes: g.rng.Uint64N(3),
			Values: 1, Bytes: 2, FirstSeq: 3, LastSeq: 4})
	}
	n := 1 + g.rng.IntN(3)
	keys := g.keys(2 * n)
	for i := range n {
		t := g.table(0, g.v.NextRun())
		t.Smallest, t.Largest, t.LargestExclusive = keys[2*i], keys[2*i+1], g.rng.IntN(3) == 0
		if i == n-1 && g.rng.IntN(4) == 0 {
			t.Largest, t.LargestExclusive = base.EndOfKeys, true
		}
	}
}

// some returns a table of a random level, or nil if the level is empty.
func (g *generator) some() *Table {
	if tables := g.v.Levels[g.rng.IntN(Levels-1)]; len(tables) > 0 {
		return tables[g.rng.IntN(len(tables))]
	}
	return nil
}

// compact replaces tables of one level and of the next by others.
func (g *generator) compact() {
	t := g.some()
	if t == nil {
		return
	}
	inputs := slices.Clone(g.v.Overlapping(t.Level, t.Smallest, t.Largest, t.LargestExclusive))
	var keys [][]byte
	addKeys := func(tables []*Table) {
		for _, t := range tables {
			keys = append(keys, t.Smallest, t.Largest)
		}
		slices.SortFunc(keys, bytes.Compare)
		keys = slices.CompactFunc(keys, bytes.Equal)
	}
	addKeys(inputs)
	below := g.v.Overlapping(t.Level+1, keys[0], keys[len(keys)-1], false)
	inputs = append(inputs, below...)
	addKeys(below)
	for _, t := range inputs {
		g.e.DropTables = append(g.e.DropTables, Place{Level: t.Level, Num: t.Num})
	}
	for i := 1; i < len(keys); i++ {
		if g.rng.IntN(3) > 0 {
			out := g.table(t.Level+1, 0)
			out.Smallest, out.Largest, out.LargestExclusive = keys[i-1], keys[i], true
		}
	}
	g.rng.Shuffle(len(g.e.AddTables), func(i, j int) {
		g.e.AddTables[i], g.e.AddTables[j] = g.e.AddTables[j], g.e.AddTables[i]
	})
}

// move moves a table to the next level, unless it would overlap there.
func (g *generator) move() {
	t := g.some()
	if t == nil || len(g.v.Overlapping(t.Level+1, t.Smallest, t.Largest, t.LargestExclusive)) > 0 {
		return
	}
	moved := *t
	moved.Level, moved.Run = t.Level+1, 0
	g.e.DropTables = []Place{{Level: t.Level, Num: t.Num}}
	g.e.AddTables = []*Table{&moved}
}

// collect rewrites value files, or drops them when no table refers to them.
func (g *generator) collect() {
	for _, v := range g.v.Values {
		switch {
		case v.Live == 0:
			g.e.DropValues = append(g.e.DropValues, v.Num)
		case g.rng.IntN(4) == 0:
			rewritten := *v.ValueFile
			rewritten.File, rewritten.Bytes = g.num(), v.Live
			g.e.AddValues = append(g.e.AddValues, &rewritten)
		}
	}
	slices.SortFunc(g.e.AddValues, func(a, b *ValueFile) int { return cmp.Compare(b.Num, a.Num) })
}
