package compact

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A grain is an entry of a simulated table. It stands for grainBytes of the tree.
type grain struct {
	key  uint64
	seq  base.SeqNum
	meta base.Meta
}

// A tree simulates a tree without files: tables are lists of grains, and plans run on them with
// the real rules.
type tree struct {
	v          *manifest.Version
	s          Shape
	rules      Rules
	grainBytes int64
	grains     map[base.FileNum][]grain
	nextFile   base.FileNum
	nextRun    uint64
	seq        base.SeqNum

	user, flushed, merged int64 // bytes
	deepest, steps        int
	tempMax               int64 // the largest input of a merge
	quick                 bool  // check validity only now and then
	reasons               map[Reason]int
}

func newTree(s Shape, grainBytes int64) *tree {
	return &tree{
		v: &manifest.Version{}, s: s.withDefaults(), grainBytes: grainBytes,
		grains: map[base.FileNum][]grain{}, reasons: map[Reason]int{},
		rules: Rules{Versions: 1, Snapshots: []base.SeqNum{0}},
	}
}

func simKey(k uint64) []byte { return binary.BigEndian.AppendUint64(nil, k) }

func compareGrains(a, b grain) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(b.seq, a.seq))
}

// add makes a table and returns it.
func (t *tree) add(level int, run, createdMs uint64, grains []grain) *manifest.Table {
	t.nextFile++
	m := &manifest.Table{
		Num: t.nextFile, Size: int64(len(grains)) * t.grainBytes, Level: level, Run: run, CreatedMs: createdMs,
		Smallest: simKey(grains[0].key), Largest: simKey(grains[len(grains)-1].key), SmallestSeq: base.SeqNumMax,
	}
	for i, g := range grains {
		m.Entries++
		if i == 0 || g.key != grains[i-1].key {
			m.Keys++
		}
		m.SmallestSeq, m.LargestSeq = min(m.SmallestSeq, g.seq), max(m.LargestSeq, g.seq)
		if g.meta.Kind == base.KindDelete {
			m.Deletions++
		}
		if x := g.meta.ExpiresAt; x != 0 {
			if m.Expiring++; m.Expiring == 1 {
				m.OldestExpiry = x
			}
			m.OldestExpiry, m.NewestExpiry = min(m.OldestExpiry, x), max(m.NewestExpiry, x)
		}
	}
	t.grains[m.Num] = grains
	return m
}

// cut makes tables of grains, in order, as Run would.
func (t *tree) cut(grains []grain, level int, run, createdMs uint64, size int64, splits [][]byte, splitMin int64) []*manifest.Table {
	var tables []*manifest.Table
	from := 0
	for i := range grains {
		atSplit := false
		for key := simKey(grains[i].key); len(splits) > 0 && bytes.Compare(splits[0], key) <= 0; splits = splits[1:] {
			atSplit = true
		}
		if i == from || grains[i].key == grains[i-1].key {
			continue
		}
		if n := int64(i-from) * t.grainBytes; n >= size || atSplit && n >= splitMin {
			tables = append(tables, t.add(level, run, createdMs, grains[from:i]))
			from = i
		}
	}
	if from < len(grains) {
		tables = append(tables, t.add(level, run, createdMs, grains[from:]))
	}
	return tables
}

// flush adds a run of grains, in any order, and makes them visible.
func (t *tree) flush(grains []grain) {
	slices.SortFunc(grains, compareGrains)
	size := int64(len(grains)) * t.grainBytes
	cuts := CutsOfFlush(t.v, t.s, size)
	t.nextRun++
	t.user, t.flushed = t.user+size, t.flushed+size
	tables := t.cut(grains, 0, t.nextRun, t.s.NowMs, cuts.TableSize, cuts.Splits, cuts.SplitMin)
	next := *t.v
	next.Levels[0] = append(slices.Clone(tables), next.Levels[0]...)
	t.v = &next
	t.deepest = max(t.deepest, newPicker(t.v, t.s).depth())
}

// advance makes everything visible and closes all snapshots but these.
func (t *tree) advance(snapshots ...base.SeqNum) {
	t.rules.Snapshots = append(snapshots, t.seq)
	t.rules.NowMs = t.s.NowMs
	t.s.OldestSnapshot = t.rules.Snapshots[0]
}

// apply executes a plan.
func (t *tree) apply(tb testing.TB, p Plan) {
	tb.Helper()
	t.mustBeInOrder(tb, &p)
	next := *t.v
	t.steps++
	t.reasons[p.Reason]++
	var added []*manifest.Table
	switch {
	case p.Drop:
	case p.Move:
		added = p.Moved()
	default:
		added = t.merge(&p)
	}
	for _, place := range p.Drops() {
		tables := next.Levels[place.Level]
		i := slices.IndexFunc(tables, func(m *manifest.Table) bool { return m.Num == place.Num })
		if i < 0 {
			tb.Fatalf("%s: drops table %d, which is not in level %d", p.String(), place.Num, place.Level)
		}
		next.Levels[place.Level] = slices.Delete(slices.Clone(tables), i, i+1)
	}
	next.Levels[p.OutputLevel] = append(slices.Clone(next.Levels[p.OutputLevel]), added...)
	for level := range next.Levels {
		slices.SortFunc(next.Levels[level], func(a, b *manifest.Table) int {
			return cmp.Or(cmp.Compare(b.Run, a.Run), bytes.Compare(a.Smallest, b.Smallest))
		})
	}
	t.v = &next
	if t.quick && t.steps%256 != 0 {
		return
	}
	if msg := t.invalid(); msg != "" {
		tb.Fatalf("after %s: %s", p.String(), msg)
	}
}

// mustBeInOrder demands that the inputs of a plan have the order of the version: their reader
// takes the tables of a run one after the other.
func (t *tree) mustBeInOrder(tb testing.TB, p *Plan) {
	tb.Helper()
	for level, inputs := range p.Inputs {
		tables := t.v.Levels[level]
		for _, m := range inputs {
			i := slices.Index(tables, m)
			if i < 0 {
				tb.Fatalf("%s: table %d of level %d comes before one that the version has earlier, or is not there",
					p.String(), m.Num, level)
			}
			tables = tables[i+1:]
		}
	}
}

// merge returns the outputs of a plan.
func (t *tree) merge(p *Plan) []*manifest.Table {
	var grains []grain
	for _, m := range p.Tables() {
		grains = append(grains, t.grains[m.Num]...)
	}
	slices.SortFunc(grains, compareGrains)
	rules := t.rules
	rules.Bottom = p.Bottom
	r := NewRetain(rules, nil)
	kept := grains[:0]
	for i, g := range grains {
		if i == 0 || g.key != grains[i-1].key {
			r.Begin(simKey(g.key))
		}
		switch r.Judge(g.seq, &g.meta) {
		case KeepTombstone:
			g.meta = base.Meta{Kind: base.KindDelete}
			kept = append(kept, g)
		case Keep:
			kept = append(kept, g)
		}
	}
	t.merged += int64(len(kept)) * t.grainBytes
	t.tempMax = max(t.tempMax, p.InputBytes())
	var job Job
	p.Apply(&job, t.s) // as for a real job
	return t.cut(kept, job.Level, job.Run, job.CreatedMs, job.TableSize, job.Splits, job.SplitMin)
}

// invalid describes an error in the tree, if there is one: overlapping tables of a run or a
// level, or a version above a newer one.
func (t *tree) invalid() string {
	newestBelow := map[uint64]base.SeqNum{}
	lists := slices.Concat(runsOf(t.v), t.v.Levels[1:])
	for i := len(lists) - 1; i >= 0; i-- {
		for j, m := range lists[i] {
			if j > 0 && m.Overlaps(lists[i][j-1]) {
				return fmt.Sprintf("tables %d and %d overlap", lists[i][j-1].Num, m.Num)
			}
			for _, g := range t.grains[m.Num] {
				if below := newestBelow[g.key]; below >= g.seq {
					return fmt.Sprintf("key %d: version %d above %d", g.key, g.seq, below)
				}
			}
		}
		for _, m := range lists[i] {
			for _, g := range t.grains[m.Num] {
				newestBelow[g.key] = max(newestBelow[g.key], g.seq)
			}
		}
	}
	return ""
}

// settle picks until nothing is due, and fails if that does not happen.
func (t *tree) settle(tb testing.TB) {
	tb.Helper()
	for n := 0; ; n++ {
		p, ok := Pick(t.v, t.s)
		if !ok {
			return
		}
		if n > 5000 {
			tb.Fatalf("still busy after %d steps: %s", n, p.String())
		}
		t.apply(tb, p)
	}
}

func (t *tree) size() int64 {
	n := int64(0)
	for _, tables := range t.v.Levels {
		n += bytesOf(tables)
	}
	return n
}

func (t *tree) String() string {
	s := ""
	for level, tables := range t.v.Levels {
		if len(tables) > 0 {
			s += fmt.Sprintf("  L%d %d tables %d MB", level, len(tables), bytesOf(tables)>>20)
		}
	}
	return s
}

// random returns n grains with the next sequence numbers.
func (t *tree) random(n int, key func(i int) uint64) []grain {
	grains := make([]grain, n)
	for i := range grains {
		t.seq++
		grains[i] = grain{key: key(i), seq: t.seq, meta: base.Meta{Kind: base.KindSet}}
	}
	return grains
}

func uniform(rng *rand.Rand) func(int) uint64 { return func(int) uint64 { return rng.Uint64() } }
