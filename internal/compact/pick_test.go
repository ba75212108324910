package compact

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// sees returns what each snapshot sees of every key of the tree, now, and which keys have
// changed since the snapshot.
func (t *tree) sees() map[string]base.SeqNum {
	seen := map[string]base.SeqNum{}
	newest := map[string]grain{}
	for _, tables := range t.v.Levels {
		for _, m := range tables {
			for _, g := range t.grains[m.Num] {
				for _, s := range t.rules.Snapshots {
					at := fmt.Sprintf("%d at %d", g.key, s)
					if g.seq > s {
						seen[at+" changed"] = 1
					} else if g.seq > newest[at].seq {
						newest[at] = g
					}
				}
			}
		}
	}
	for at, g := range newest {
		if g.meta.Live(t.s.NowMs) {
			seen[at] = g.seq
		}
	}
	return seen
}

// randomTree returns a tree in the middle of its life: small tables, few keys, many deletions
// and expiries, some snapshots. Some trees have flushes that are small relative to the tree.
// Some trees were made for another shape.
func randomTree(tb testing.TB, rng *rand.Rand) *tree {
	const unit = 1 << 20
	t := newTree(Shape{BaseSizeMin: 16 * unit, TableSize: 4 * unit, InputMax: 32 * unit, RunsMax: 2 + rng.IntN(6), DeletionAgeMs: 1000}, unit/8)
	if rng.IntN(3) == 0 {
		t.s.TableSize *= 16 // level 0 is wide
	}
	keys := 1 + rng.Uint64N(4000)
	flushMax := 1 + rng.IntN(80)
	if rng.IntN(3) == 0 {
		keys, flushMax = 4000, 4
		t.flush(t.random(4000, uniformTo(rng, keys)))
		t.advance()
		t.settle(tb)
	}
	deletions, expiries := rng.IntN(12), rng.IntN(12)
	var snapshots []base.SeqNum
	for range 1 + rng.IntN(25) {
		t.flush(t.randomWrites(rng, 1+rng.IntN(flushMax), keys, deletions, expiries))
		t.s.NowMs += rng.Uint64N(200)
		if len(snapshots) > 0 && rng.IntN(3) == 0 {
			snapshots = snapshots[1:]
		}
		t.advance(snapshots...)
		for range rng.IntN(4) {
			if p, ok := Pick(t.v, t.s); ok {
				t.apply(tb, p)
			}
		}
		if rng.IntN(4) == 0 {
			snapshots = append(snapshots, t.seq)
			t.seq++
		}
	}
	t.s.Idle = rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		t.s.BaseSizeMin *= 8
	}
	return t
}

func uniformTo(rng *rand.Rand, keys uint64) func(int) uint64 {
	return func(int) uint64 { return rng.Uint64N(keys) }
}

// randomWrites returns n grains of some part of the keys. deletions tenths of them are
// deletions, and some of the others expire.
func (t *tree) randomWrites(rng *rand.Rand, n int, keys uint64, deletions, expiries int) []grain {
	from, span := rng.Uint64N(keys), 1+keys/(1+rng.Uint64N(5))
	grains := t.random(n, func(int) uint64 { return (from + rng.Uint64N(span)) % keys })
	for i := range grains {
		if rng.IntN(10) < deletions {
			grains[i].meta.Kind = base.KindDelete
		} else if rng.IntN(10) < expiries {
			grains[i].meta.ExpiresAt = 1 + t.s.NowMs + rng.Uint64N(2000)
		}
	}
	return grains
}

// The test settles random trees. Every plan must keep what snapshots see and the order of
// versions, and the plans must end.
func TestPick_EndsAndKeepsWhatSnapshotsSee(t *testing.T) {
	t.Parallel()
	for seed := range seeds(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			tr := randomTree(t, rand.New(rand.NewPCG(seed, 2)))
			before, steps, merged, size := tr.sees(), tr.steps, tr.merged, tr.size()
			tr.settle(t)
			if after := tr.sees(); !reflect.DeepEqual(before, after) {
				t.Errorf("snapshots saw %d versions before and %d after", len(before), len(after))
			}
			// Every table goes down at most once a level, or is merged or cleaned once
			// more.
			if n, most := tr.steps-steps, 20+4*int(size/(64<<10)); n > most {
				t.Errorf("%d steps for %d bytes", n, size)
			}
			if most := 20 * size; tr.merged-merged > most {
				t.Errorf("%d bytes written for a tree of %d", tr.merged-merged, size)
			}
		})
	}
}

// The test deletes all keys, or lets them expire, and picks while the database is idle.
func TestPick_DeadTreeShrinksToNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"deleted", "deleted at random", "expired", "expired while busy"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const mib = 1 << 20
			tr := newTree(Shape{BaseSizeMin: 16 * mib, TableSize: 4 * mib, InputMax: 32 * mib}, mib/16)
			rng := rand.New(rand.NewPCG(1, 2))
			const keys = 8000
			write := func(n int, key func(int) uint64, m base.Meta) {
				for range n {
					grains := tr.random(40, key)
					for i := range grains {
						grains[i].meta = m
					}
					tr.flush(grains)
					tr.advance()
					tr.settle(t)
				}
			}
			m := base.Meta{Kind: base.KindSet}
			if how[0] == 'e' {
				m.ExpiresAt = 1000
			}
			write(300, func(int) uint64 { return rng.Uint64N(keys) }, m)
			from := tr.seq
			switch how {
			case "deleted":
				write(keys/40, func(int) uint64 { return uint64(tr.seq - from) }, base.Meta{Kind: base.KindDelete})
				write(1, func(int) uint64 { return 0 }, base.Meta{Kind: base.KindDelete})
			case "deleted at random":
				order := rng.Perm(keys)
				write(keys/40, func(int) uint64 { return uint64(order[tr.seq-from-1]) }, base.Meta{Kind: base.KindDelete})
			}
			tr.s.NowMs, tr.s.Idle = 1000, how != "expired while busy"
			tr.advance()
			tr.settle(t)
			if tr.size() != 0 {
				t.Errorf("left: %d bytes %s", tr.size(), tr)
			}
		})
	}
}

// The test keeps a few deletions in a tree that has nothing else to do.
func TestPick_OldDeletionsGo(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	tr := newTree(Shape{BaseSizeMin: 4 * mib, TableSize: mib, DeletionAgeMs: 1000}, mib/64)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		grains := tr.random(64, func(int) uint64 { return rng.Uint64N(100_000) })
		if i%10 == 0 {
			grains[0].meta.Kind = base.KindDelete
		}
		tr.flush(grains)
		tr.advance()
		tr.settle(t)
	}
	tr.s.NowMs = 1000
	tr.advance()
	tr.settle(t)
	for level, tables := range tr.v.Levels[1:] {
		for _, m := range tables {
			if m.Deletions > 0 {
				t.Errorf("%d deletions in a table of level %d", m.Deletions, level+1)
			}
		}
	}
}

// Time passes in small steps while values expire one by one, long after they were written.
func TestPick_ValuesThatExpireOneByOneAreRewrittenSeldom(t *testing.T) {
	t.Parallel()
	const mib, first, last, step = 1 << 20, 9_000, 17_000, 20
	for _, idle := range []bool{false, true} {
		tr := newTree(Shape{BaseSizeMin: 4 * mib, TableSize: mib, DeletionAgeMs: 1000, Idle: idle}, mib/64)
		grains := tr.random(640, func(i int) uint64 { return uint64(i) })
		for i := range grains {
			grains[i].meta.ExpiresAt = first + 1000 + uint64(i)*10
		}
		tr.flush(grains)
		for tr.s.NowMs = first; tr.s.NowMs < last; tr.s.NowMs += step {
			tr.advance()
			tr.settle(t)
		}
		if tr.size() != 0 {
			t.Errorf("idle %t: all has expired, and %d bytes are left: %s", idle, tr.size(), tr)
		}
		if most := 12 * tr.user; tr.merged > most {
			t.Errorf("idle %t: merges wrote %d bytes of %d, want at most %d", idle, tr.merged, tr.user, most)
		}
	}
}

// A merge above the last level makes tombstones of values that have expired. They are new.
func TestPick_TombstonesThatAMergeMakesAreNew(t *testing.T) {
	t.Parallel()
	old := &manifest.Table{CreatedMs: 5, Expiring: 1}
	if got := oldestTombstone([]*manifest.Table{old}, 1000); got != 1000 {
		t.Errorf("tombstones of tables without any are from %d, want now", got)
	}
	deleted := &manifest.Table{CreatedMs: 7, Deletions: 1}
	if got := oldestTombstone([]*manifest.Table{old, deleted}, 1000); got != 7 {
		t.Errorf("the oldest tombstone is from %d, want 7", got)
	}
}

// The test deletes everything under an open snapshot.
func TestPick_SnapshotHoldsWhatItSees(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	tr := newTree(Shape{BaseSizeMin: 4 * mib, TableSize: mib, Idle: true}, mib/64)
	tr.flush(tr.random(1000, func(i int) uint64 { return uint64(i) }))
	tr.advance()
	snapshot := tr.seq
	deleted := tr.random(1000, func(i int) uint64 { return uint64(i) })
	for i := range deleted {
		deleted[i].meta.Kind = base.KindDelete
	}
	tr.flush(deleted)
	tr.advance(snapshot)
	tr.settle(t)
	// It sees 1,000 keys, and that they have changed.
	if n := len(tr.sees()); n != 2000 {
		t.Errorf("the snapshot sees %d facts, want 2000", n)
	}
	tr.advance()
	tr.settle(t)
	if tr.size() != 0 {
		t.Errorf("after the snapshot: %s", tr)
	}
}

// The test calls PickRange until it is done.
func TestPickRange_BringsARangeToTheLastLevel(t *testing.T) {
	t.Parallel()
	for seed := range seeds(100) {
		tr := randomTree(t, rand.New(rand.NewPCG(seed, 3)))
		before := tr.sees()
		lo, hi := simKey(seed*10), simKey(seed*10+1500)
		switch seed % 3 {
		case 0:
			lo, hi = nil, nil
		case 1:
			tr.s.CutFrom = -1
		}
		for n := 0; ; n++ {
			p, ok := PickRange(tr.v, tr.s, Range{Lo: lo, Hi: hi, UpTo: base.SeqNumMax, Next: math.MaxUint32})
			if !ok {
				break
			}
			if n > 3000 {
				t.Fatalf("seed %d: still busy after %d steps: %s", seed, n, p.String())
			}
			tr.apply(t, p)
		}
		if after := tr.sees(); !reflect.DeepEqual(before, after) {
			t.Errorf("seed %d: snapshots saw %d versions before and %d after", seed, len(before), len(after))
		}
		for level := range last {
			if n := len(tr.v.Overlapping(level, lo, hi, true)); n > 0 {
				t.Errorf("seed %d: %d tables of the range in level %d", seed, n, level)
			}
		}
	}
}

// One table of level 0 may lie over the whole base.
func TestPickRange_ASmallRangeTakesLittleOfTheBase(t *testing.T) {
	t.Parallel()
	const mib, tables, each = 1 << 20, 200, 32
	key := func(table, i int) uint64 { return uint64(table*each+i) * 10 }
	for _, c := range []struct {
		name   string
		runs   int
		lo, hi []byte
	}{
		{"in one table of the base", 1, simKey(key(100, 3)), simKey(key(100, 9))},
		{"under several runs", 3, simKey(key(100, 3)), simKey(key(100, 9))},
		{"between two keys of level 0", 1, simKey(key(101, 3)), simKey(key(101, 9))},
		{"the first keys", 2, nil, simKey(key(0, 9))},
		{"the last keys", 2, simKey(key(tables-1, 9)), nil},
	} {
		tr := newTree(Shape{BaseSizeMin: 256 * mib, TableSize: 4 * mib}, mib/8)
		for table := range tables {
			m := tr.add(last, 0, 0, tr.random(each, func(i int) uint64 { return key(table, i) }))
			tr.v.Levels[last] = append(tr.v.Levels[last], m)
		}
		for run := range c.runs {
			m := tr.add(0, uint64(run+1), 0, tr.random(21, func(i int) uint64 { return min(key(10*i, 5), key(tables-1, 20)) }))
			tr.v.Levels[0] = append([]*manifest.Table{m}, tr.v.Levels[0]...)
		}
		takesLittle(t, c.name, tr, Range{Lo: c.lo, Hi: c.hi, UpTo: base.SeqNumMax, Next: math.MaxUint32})
	}
}

// Below the newer run, there is no base. The older run has a value that it has deleted.
func TestPickRange_ACutKeepsTombstonesOverAnOlderRun(t *testing.T) {
	t.Parallel()
	const grainBytes = 1 << 20
	tr := newTree(Shape{BaseSizeMin: 256 * grainBytes, TableSize: 2 * grainBytes}, grainBytes)
	from := func(first uint64) func(int) uint64 { return func(i int) uint64 { return first + uint64(i) } }
	for first := range uint64(10) {
		tr.v.Levels[last] = append(tr.v.Levels[last], tr.add(last, 0, 0, tr.random(1, from(first))))
	}
	older := tr.add(0, 1, 0, tr.random(3, func(i int) uint64 { return []uint64{0, 15, 16}[i] }))
	grains := tr.random(3, func(i int) uint64 { return []uint64{10, 15, 20}[i] })
	grains[1].meta.Kind = base.KindDelete
	tr.v.Levels[0] = []*manifest.Table{tr.add(0, 2, 0, grains), older}
	takesLittle(t, "a deleted key", tr, Range{Lo: simKey(15), Hi: simKey(18), UpTo: base.SeqNumMax, Next: math.MaxUint32})
}

// takesLittle brings a small range of a tree to the last level. It demands that the steps read
// little, and that readers see the same as before.
func takesLittle(t *testing.T, name string, tr *tree, r Range) {
	t.Helper()
	tr.advance()
	before, read, most := tr.sees(), int64(0), tr.v.Bytes(0)+4*tr.s.TableSize
	if ahead := r.Ahead(tr.v, tr.s); ahead > most {
		t.Errorf("%s: the steps are expected to read %d bytes, want at most %d", name, ahead, most)
	}
	for n := 0; ; n++ {
		p, ok := PickRange(tr.v, tr.s, r)
		if !ok {
			break
		}
		if n > 50 {
			t.Fatalf("%s: still busy after %d steps: %s", name, n, p.String())
		}
		read += p.InputBytes()
		tr.apply(t, p)
	}
	if read > most {
		t.Errorf("%s: the steps read %d bytes, want at most %d", name, read, most)
	}
	if after := tr.sees(); !reflect.DeepEqual(before, after) {
		t.Errorf("%s: snapshots saw %d versions before and %d after", name, len(before), len(after))
	}
	for level := range last {
		if n := len(tr.v.Overlapping(level, r.Lo, r.Hi, true)); n > 0 {
			t.Errorf("%s: %d tables of the range in level %d", name, n, level)
		}
	}
}

// A table with only newer versions than the range is to bring down stays as it is.
func TestPickRange_CutsNoTableThatStays(t *testing.T) {
	t.Parallel()
	const grainBytes = 1 << 20
	tr := newTree(Shape{BaseSizeMin: 256 * grainBytes, TableSize: grainBytes}, grainBytes)
	for key := range uint64(20) {
		tr.v.Levels[last] = append(tr.v.Levels[last], tr.add(last, 0, 0, tr.random(1, func(int) uint64 { return key })))
	}
	old := tr.add(0, 1, 0, tr.random(2, func(i int) uint64 { return uint64(10 + 9*i) }))
	upTo := tr.seq
	stays := tr.add(0, 1, 0, tr.random(2, func(i int) uint64 { return uint64(9 * i) }))
	tr.v.Levels[0] = []*manifest.Table{stays, old}
	tr.advance()
	cuts, r := 0, Range{Lo: simKey(8), Hi: simKey(12), UpTo: upTo, Next: math.MaxUint32}
	for p, ok := PickRange(tr.v, tr.s, r); ok; p, ok = PickRange(tr.v, tr.s, r) {
		if p.Cuts {
			cuts++
		}
		tr.apply(t, p)
	}
	if cuts != 1 || !slices.Contains(tr.v.Levels[0], stays) {
		t.Errorf("%d tables were cut, want only that with older versions: %s", cuts, tr)
	}
}

// shaped returns a version of tables given as level, run, bounds and bytes.
func shaped(tables ...*manifest.Table) *manifest.Version {
	v := &manifest.Version{}
	for i, m := range tables {
		m.Num = base.FileNum(i + 1)
		if m.Entries == 0 {
			m.Entries = 100
		}
		v.Levels[m.Level] = append(v.Levels[m.Level], m)
	}
	return v
}

// The last level is too small to need another above it, but one remains there.
func TestPick_Level0GoesToTheHighestLevelInUse(t *testing.T) {
	t.Parallel()
	v := shaped(
		&manifest.Table{Level: 0, Run: 2, Smallest: []byte("b"), Largest: []byte("m"), Size: 64 << 20},
		&manifest.Table{Level: 0, Run: 1, Smallest: []byte("b"), Largest: []byte("m"), Size: 64 << 20},
		&manifest.Table{Level: 5, Smallest: []byte("a"), Largest: []byte("k"), Size: 1 << 20},
		&manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: 64 << 20},
	)
	p, ok := Pick(v, Shape{BaseSizeMin: 40 << 20})
	if !ok || p.OutputLevel != 5 || len(p.Inputs[0]) != 2 || len(p.Inputs[5]) != 1 || p.Bottom {
		t.Errorf("picked %s, bottom %t", p.String(), p.Bottom)
	}
}

// TestRetain_DeletionsStayAboveAnOlderRun has a run of only deletions over a run that they hide, and
// nothing below.
func TestRetain_DeletionsStayAboveAnOlderRun(t *testing.T) {
	t.Parallel()
	deletions := &manifest.Table{Run: 2, Smallest: []byte("a"), Largest: []byte("m"), Size: 1000, Deletions: 100, LargestSeq: 9}
	hidden := &manifest.Table{Run: 1, Smallest: []byte("k"), Largest: []byte("z"), Size: 1000, LargestSeq: 5}
	s := Shape{OldestSnapshot: 10}
	if p, ok := Pick(shaped(deletions, hidden), s); ok && p.Drop {
		t.Errorf("picked %s", p.String())
	}
	if p, ok := Pick(shaped(deletions), s); !ok || !p.Drop {
		t.Errorf("with nothing to hide: picked %s", p.String())
	}
	s.OldestSnapshot = 8
	if p, ok := Pick(shaped(deletions), s); ok && p.Drop {
		t.Errorf("under a snapshot that does not see them: picked %s", p.String())
	}
}

// A merge of only the newest runs keeps its deletions, even if no level below has what they
// hide: an older run may.
func TestPick_DeletionsStayWhenNotAllRunsAreMerged(t *testing.T) {
	t.Parallel()
	run := func(n uint64, size int64) *manifest.Table {
		return &manifest.Table{Run: n, Smallest: []byte("a"), Largest: []byte("m"), Size: size, Entries: 100, Deletions: 10, LargestSeq: base.SeqNum(n)}
	}
	s := Shape{OldestSnapshot: 10}
	for _, c := range []struct {
		oldest int64
		merged int
		bottom bool
	}{{1000, 3, true}, {1 << 20, 2, false}} {
		v := shaped(run(3, 1000), run(2, 1000), run(1, c.oldest))
		p, ok := newPicker(v, s).mergeRuns(ReasonIdle)
		if !ok || len(p.Inputs[0]) != c.merged || p.Bottom != c.bottom {
			t.Errorf("an oldest run of %d bytes: picked %s, bottom %t", c.oldest, p.String(), p.Bottom)
		}
	}
}

// A last level that outgrows the limit for levels above it lowers the limit of level 0 at
// once. That alone must not slow commits down.
func TestDebt_ALastLevelThatOutgrowsItsLimitIsNone(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, c := range []struct {
		level0, last int64
		owed         bool
	}{
		{gib / 2, gib, true}, {gib / 3, gib, false},
		{2 * gib, 7 * gib, false}, {2 * gib, 9 * gib, false}, {3 * gib, 9 * gib, true},
	} {
		v := shaped(
			&manifest.Table{Run: 1, Smallest: []byte("a"), Largest: []byte("z"), Size: c.level0},
			&manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: c.last})
		if debt := Debt(v, Shape{BaseSizeMin: gib / 4}); debt > 0 != c.owed {
			t.Errorf("%d MiB in level 0, %d in the last level: a debt of %d bytes", c.level0>>20, c.last>>20, debt)
		}
	}
}

// Small runs are merged with each other only where a read meets many of them.
func TestPick_SmallRunsBesideEachOtherAreNotMerged(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		tables := []*manifest.Table{{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: 64 << 20}}
		for i := range byte(10) {
			m := &manifest.Table{Run: 10 - uint64(i), Smallest: []byte{'b'}, Largest: []byte{'c'}, Size: 1 << 20}
			if !together {
				m.Smallest, m.Largest = []byte{'b' + 2*i}, []byte{'c' + 2*i}
			}
			tables = append(tables, m)
		}
		p, ok := newPicker(shaped(tables...), Shape{BaseSizeMin: 16 << 20, TableSize: 32 << 20}).mergeSmallRuns()
		if ok != together {
			t.Errorf("over each other: %t, picked %s", together, p.String())
		}
	}
}

// cutTree returns a tree of 64 full tables of the last level, with gaps between their keys.
func cutTree() *tree {
	const grainBytes, tableSize = 4 << 10, 1 << 20
	tr := newTree(Shape{BaseSizeMin: 256 << 20, TableSize: tableSize}, grainBytes)
	tr.quick = true
	for table := range 64 {
		m := tr.add(last, 0, 0, tr.random(tableSize/grainBytes, func(i int) uint64 { return cutKey(table, 10*i) }))
		tr.v.Levels[last] = append(tr.v.Levels[last], m)
	}
	return tr
}

// cutKey returns a key in a table of the last level of a cutTree, for i from 0 to 2550.
func cutKey(table, i int) uint64 { return uint64(table*100_000 + i) }

// Drops have cut one run in small tables, most of them over one table of the last level.
func TestPick_TheSliceWithTheMostTablesGoesDownWhenLevel0HasVeryMany(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		tr := cutTree()
		for table := range 64 {
			tables := 60
			if table == 7 {
				tables = 300
				if more {
					tables = 1300
				}
			}
			for i := range tables {
				keys := 1
				if table == 9 { // more bytes than in 1300 tables of one key
					keys = 30
				}
				m := tr.add(0, 1, 0, tr.random(keys, func(key int) uint64 { return cutKey(table, keys*i+1+key) }))
				tr.v.Levels[0] = append(tr.v.Levels[0], m)
			}
		}
		before := len(tr.v.Levels[0])
		if more != (before > level0Tables) {
			t.Fatalf("%d tables in level 0", before)
		}
		tr.advance()
		tr.settle(t)
		want := map[Reason]int{}
		if more {
			want[ReasonTables], before = 1, before-1300
		}
		if n := len(tr.v.Levels[0]); n != before || !reflect.DeepEqual(tr.reasons, want) {
			t.Errorf("%d tables are left in level 0, want %d: %v", n, before, tr.reasons)
		}
		if msg := tr.invalid(); msg != "" {
			t.Error(msg)
		}
	}
}

// Each run has one key, and no two runs overlap.
func TestPick_ManyRunsBesideEachOtherAreMergedWhileOthersWrite(t *testing.T) {
	t.Parallel()
	for _, runs := range []int{90, 200} {
		tr := cutTree()
		for i := range runs {
			m := tr.add(0, uint64(i+1), 0, tr.random(1, func(int) uint64 { return cutKey(i%64, 5*(i/64)+1) }))
			tr.v.Levels[0] = append([]*manifest.Table{m}, tr.v.Levels[0]...)
		}
		tr.advance()
		tr.settle(t)
		want := runs
		if runs > besideMax*tr.s.RunsMax {
			want = 1
		}
		if n := tr.v.Runs(); n != want || tr.merged > int64(runs)*tr.grainBytes {
			t.Errorf("%d runs of %d are left, want %d, merges wrote %d bytes: %v", n, runs, want, tr.merged, tr.reasons)
		}
		if msg := tr.invalid(); msg != "" {
			t.Error(msg)
		}
	}
}

// A table with deletions is not moved to a place where they hide nothing, but merged: a moved
// table would not be rewritten again.
func TestPick_TableWithDeletionsIsMergedNotMoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		below   int // tables below the destination
		deleted uint64
		moved   bool
	}{{0, 0, true}, {0, 10, false}, {1, 10, true}} {
		tables := []*manifest.Table{{Level: 4, Smallest: []byte("a"), Largest: []byte("m"), Size: 1000, Entries: 100, Deletions: c.deleted}}
		if c.below > 0 {
			tables = append(tables, &manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("m"), Size: 1000, Entries: 100})
		}
		plan := newPicker(shaped(tables...), Shape{OldestSnapshot: 10}).down(tables[0], 4, ReasonLevel)
		if plan.Move != c.moved {
			t.Errorf("%d deletions, %d tables below: %s", c.deleted, c.below, plan.String())
		}
	}
}

// Edits of the manifest wait while a plan is picked, and so do large commits.
func TestPick_TakesLittleTimeAfterALargeIngest(t *testing.T) {
	const all = 32_000
	after := func(tables int) (measure func() time.Duration) {
		var run []*manifest.Table
		for i := range uint64(tables) {
			run = append(run, &manifest.Table{Run: 1, Smallest: simKey(2 * i), Largest: simKey(2*i + 1), Size: 1 << 20})
		}
		v := shaped(run...)
		return func() time.Duration {
			started := time.Now()
			for range all / tables {
				if plan, ok := PickNeeded(v, Shape{}); !ok || !plan.Move || len(plan.Inputs[0]) != tables {
					t.Fatalf("picked %s of %d tables, want all moved", plan.String(), tables)
				}
			}
			return time.Since(started)
		}
	}
	afterSmall, afterLarge := after(500), after(all)
	small, large := afterSmall(), afterLarge()
	for range 5 { // in turns, so that a busy machine slows down both
		small, large = min(small, afterSmall()), min(large, afterLarge())
	}
	if large > 15*small {
		t.Errorf("%v for ingests of 500 tables, %v for one of as many tables, %d", small, large, all)
	}
}

func TestMovable_OnlyTablesThatDoNotOverlap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	seen := map[bool]int{}
	for range 2000 {
		p := Plan{OutputLevel: last}
		for i := range 1 + rng.IntN(4) {
			lo := rng.Uint64N(20)
			m := &manifest.Table{Run: uint64(9 - i), Smallest: simKey(lo), Largest: simKey(lo + 1 + rng.Uint64N(6)), LargestExclusive: rng.IntN(2) == 0}
			p.Inputs[0] = append(p.Inputs[0], m)
		}
		want := true
		for i, a := range p.Inputs[0] {
			want = want && !slices.ContainsFunc(p.Inputs[0][:i], a.Overlaps)
		}
		if got := p.movable(p.Inputs[0], Shape{}); got != want {
			t.Fatalf("movable: %t, want %t", got, want)
		}
		seen[want]++
	}
	if seen[false] < 100 || seen[true] < 100 {
		t.Errorf("too few cases of one kind: %v", seen)
	}
}

func TestPick_EmptyTreeHasNothingDue(t *testing.T) {
	t.Parallel()
	v := &manifest.Version{}
	if p, ok := Pick(v, Shape{Idle: true}); ok {
		t.Errorf("picked %s", p.String())
	}
	if p, ok := PickRange(v, Shape{}, Range{UpTo: base.SeqNumMax}); ok {
		t.Errorf("picked %s", p.String())
	}
	if Debt(v, Shape{}) != 0 {
		t.Error("debt of an empty tree")
	}
}

// BenchmarkPick picks a plan for a tree of 20 GB under load.
func BenchmarkPick(b *testing.B) {
	const flush, size = 32 << 20, 64 << 10
	tr := newTree(Shape{BaseSizeMin: 8 * flush}, size)
	tr.quick = true
	key := uniform(rand.New(rand.NewPCG(1, 2)))
	for tr.user < 8<<30 {
		tr.flush(tr.random(flush/size, key))
		tr.advance()
		tr.settle(b)
	}
	tr.s.RunsMax = 1
	b.ResetTimer()
	for b.Loop() {
		if _, ok := Pick(tr.v, tr.s); !ok {
			b.Fatal("nothing due")
		}
	}
	b.ReportMetric(float64(len(tr.v.Levels[0])), "tables-in-level-0")
}

// partialTree returns a tree of tables with partial entries and values that expire, so many in
// the last level, and a tenth as many above. partial says which tables have partial entries.
func partialTree(tables int, partial func(level, i int) bool) *manifest.Version {
	v, num := new(manifest.Version), base.FileNum(1)
	for level, n := range map[int]int{0: 4, last - 1: tables / 10, last: tables} {
		for i := range n {
			lo, hi := i*10*tables/n, (i+1)*10*tables/n-1
			t := &manifest.Table{Num: num, Size: 32 << 20, Level: level, Entries: 1000, Keys: 1000, Expiring: 100,
				OldestExpiry: 1, NewestExpiry: 1 << 40, Smallest: fmt.Appendf(nil, "%08d", lo), Largest: fmt.Appendf(nil, "%08d", hi)}
			if num++; level == 0 {
				t.Run = uint64(n - i)
				t.Largest = fmt.Appendf(nil, "%08d", hi+5) // runs overlap
			}
			if partial(level, i) {
				t.Partials = 10
			}
			v.Levels[level] = append(v.Levels[level], t)
		}
	}
	return v
}

// layeredTree returns a version of random runs and levels. Some tables have values that expire
// or partial entries.
func layeredTree(rng *rand.Rand) *manifest.Version {
	v, num := new(manifest.Version), base.FileNum(1)
	layer := func(level int, run uint64) {
		for key := rng.IntN(40); key < 300; key += rng.IntN(40) {
			t := &manifest.Table{Num: num, Level: level, Run: run, Smallest: fmt.Appendf(nil, "%03d", key),
				Expiring: rng.Uint64N(3), Partials: rng.Uint64N(8) / 7}
			num++
			size := rng.IntN(20)
			key += size
			t.Largest, t.LargestExclusive = fmt.Appendf(nil, "%03d", key), size > 0 && rng.IntN(2) == 0
			if !t.LargestExclusive {
				key++
			}
			v.Levels[level] = append(v.Levels[level], t)
		}
	}
	for run := rng.Uint64N(8); run > 0; run-- {
		layer(0, run)
	}
	for level := 1; level < manifest.Levels; level++ {
		if rng.IntN(2) == 0 {
			layer(level, 0)
		}
	}
	return v
}

// keptUnder compares t with all tables and spans with partial entries.
func keptUnder(v *manifest.Version, spans []Span, t *manifest.Table) (kept uint64) {
	if t.Expiring == 0 {
		return 0
	}
	for u := range v.Tables() {
		if u.Partials > 0 && u.Overlaps(t) && (u == t || u.Level < t.Level || u.Level == t.Level && u.Run > t.Run) {
			return t.Expiring
		}
	}
	for _, span := range spans {
		if !t.EndsBefore(span.Lo) && !t.StartsAfter(span.Hi) {
			kept += span.Keys
		}
	}
	return kept
}

func TestShield_FindsWhatAComparisonOfAllTablesFinds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	found, free := 0, 0
	for range 300 {
		v := layeredTree(rng)
		var s Shape
		for range rng.IntN(3) {
			from := rng.IntN(300)
			s.Partials = append(s.Partials, Span{Lo: fmt.Appendf(nil, "%03d", from), Hi: fmt.Appendf(nil, "%03d", from+rng.IntN(30)), Keys: 1 + rng.Uint64N(5)})
		}
		s.shield(v)
		for x := range v.Tables() {
			want := keptUnder(v, s.Partials, x)
			if got := s.shielded[x]; got != want {
				t.Errorf("table %d of level %d: %d values are kept, want %d", x.Num, x.Level, got, want)
			}
			if want > 0 {
				found++
			} else if x.Expiring > 0 {
				free++
			}
		}
	}
	if found == 0 || free == 0 {
		t.Errorf("%d tables with expiring values have partial entries over them, %d have none", found, free)
	}
}

// BenchmarkShield looks for partial entries over each of 10,000 tables whose values expire. A
// run of level 0 has 3,000 tables with partial entries. None lies over one of the others.
func BenchmarkShield(b *testing.B) {
	v := new(manifest.Version)
	for i := range 3000 {
		key := fmt.Appendf(nil, "%08d", 30*i+7)
		v.Levels[0] = append(v.Levels[0], &manifest.Table{Run: 1, Partials: 10, Smallest: key, Largest: key})
	}
	for i := range 10_000 {
		v.Levels[last] = append(v.Levels[last], &manifest.Table{Level: last, Expiring: 100,
			Smallest: fmt.Appendf(nil, "%08d", 10*i), Largest: fmt.Appendf(nil, "%08d", 10*i+5)})
	}
	for b.Loop() {
		var s Shape
		s.shield(v)
	}
}

// BenchmarkPickPartials picks among tables that all have partial entries and values that
// expire.
func BenchmarkPickPartials(b *testing.B) {
	v := partialTree(8000, func(level, _ int) bool { return level > 0 })
	for b.Loop() {
		Pick(v, Shape{Idle: true, NowMs: 2})
	}
}

// A table is a day old, and one of its values expires now and then.
func TestGarbage_AgeAloneMakesOnlyTombstonesWorthARewrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		table manifest.Table
		want  bool
	}{
		{"one value in a thousand has expired", manifest.Table{Entries: 1000, Keys: 1000, Expiring: 1000, OldestExpiry: 1, NewestExpiry: 1e6}, false},
		{"one entry in a thousand is a tombstone", manifest.Table{Entries: 1000, Keys: 1000, Deletions: 1}, true},
		{"half of the values have expired", manifest.Table{Entries: 1000, Keys: 1000, Expiring: 1000, OldestExpiry: 1, NewestExpiry: 4000}, true},
	} {
		p := picker{v: new(manifest.Version), s: Shape{NowMs: 2001, DeletionAgeMs: 1000, OldestSnapshot: base.SeqNumMax}.withDefaults()}
		if part, _ := p.garbageOf(&c.table, last); (part > 0) != c.want {
			t.Errorf("%s: a part of %v is worth a rewrite, want %t", c.what, part, c.want)
		}
	}
}

// All values of a table of the last level have expired, if the case does not say otherwise.
func TestGarbage_PartialEntriesKeepNoMoreThanTheirKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		keys  uint64 // in memory
		table uint64 // partial entries in a table of level 0
		nowMs uint64
		want  float64
	}{
		{"none", 0, 0, 2000, 1},
		{"two in memory", 2, 0, 2000, 0.998},
		{"two in memory, while most have expired", 2, 0, 1999, 0},
		{"as many in memory", 1000, 0, 2000, 0},
		{"two in a table above", 0, 2, 2000, 0},
	} {
		m := &manifest.Table{Level: last, Entries: 1000, Keys: 1000, Expiring: 1000, OldestExpiry: 1000, NewestExpiry: 2000,
			Smallest: []byte("a"), Largest: []byte("z")}
		above := &manifest.Table{Entries: 1000, Keys: 1000, Partials: c.table, Smallest: []byte("b"), Largest: []byte("y")}
		s := Shape{NowMs: c.nowMs, OldestSnapshot: base.SeqNumMax}
		if c.keys > 0 {
			s.Partials = []Span{{Lo: []byte("a"), Hi: []byte("z"), Keys: c.keys}}
		}
		if part, _ := newPicker(shaped(above, m), s).garbageOf(m, last); part != c.want {
			t.Errorf("%s: a part of %v is worth a rewrite, want %v", c.what, part, c.want)
		}
	}
}

// Every hundredth value is the base of a partial entry in memory, and all values expire.
func TestPick_EndsWhilePartialEntriesInMemoryKeepExpiredValues(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, spread := range []uint64{0, 100} {
		tr := newTree(Shape{BaseSizeMin: 4 * mib, TableSize: mib, Idle: true}, mib/64)
		grains := tr.random(640, func(i int) uint64 { return uint64(i) })
		for i := range grains {
			grains[i].meta.ExpiresAt = 1000 + uint64(i)*spread
		}
		tr.flush(grains)
		tr.rules.Above = func(key []byte) bool { return binary.BigEndian.Uint64(key)%100 == 0 }
		tr.s.Partials = []Span{{Lo: simKey(0), Hi: simKey(639), Keys: 7}}
		for tr.s.NowMs = 0; tr.s.NowMs <= 1000+640*spread; tr.s.NowMs += 500 {
			tr.advance()
			tr.settle(t)
		}
		if entries := tr.size() / tr.grainBytes; entries != 7 {
			t.Errorf("expiry every %d ms: %d entries are left, want 7: %s", spread, entries, tr)
		}
	}
}

func TestPick_FewPartialEntriesGoDownWhenMuchBelowHasExpired(t *testing.T) {
	t.Parallel()
	for _, expired := range []bool{false, true} {
		above := &manifest.Table{Size: 1 << 10, Entries: 2, Keys: 2, Partials: 2, Smallest: []byte("a"), Largest: []byte("z")}
		below := &manifest.Table{Level: last, Size: 1 << 20, Entries: 1000, Keys: 1000, Expiring: 1000, OldestExpiry: 1000, NewestExpiry: 2000,
			Smallest: []byte("a"), Largest: []byte("z")}
		s := Shape{Idle: true, OldestSnapshot: base.SeqNumMax, NowMs: 1}
		if expired {
			s.NowMs = 2000
		}
		p, due := Pick(shaped(above, below), s)
		if due != expired || due && (p.Reason != ReasonIdle || len(p.Tables()) != 2) {
			t.Errorf("expired %t: the plan is %s", expired, p.String())
		}
	}
}
