package compact

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Keys grow in several places. Each flush has a few keys of one place.
func TestNeighbours_SmallFlushesOfGrowingKeysEndInFewTables(t *testing.T) {
	t.Parallel()
	const grain = 64 << 10
	for _, c := range []struct {
		places, most int     // of grains in a flush
		written      float64 // maximum of merges, per byte
	}{{1, 1, 2}, {1, 16, 2}, {1, 100, 1.5}, {5, 1, 2.5}, {20, 16, 2}} {
		t.Run(fmt.Sprintf("%d places, %d grains", c.places, c.most), func(t *testing.T) {
			t.Parallel()
			tr := newTree(Shape{Idle: true}, grain)
			tr.quick = true
			rng := rand.New(rand.NewPCG(1, 2))
			most := 0
			for range 800 {
				place := uint64(rng.IntN(c.places)) << 40
				tr.flush(tr.random(1+rng.IntN(c.most), func(int) uint64 { return place + uint64(tr.seq) }))
				tr.advance()
				tr.settle(t)
				// Full tables are at least half full. Between two of them lies less
				// than makes another.
				full := int(tr.size() / (tr.s.TableSize / 2))
				if n := len(tr.v.Levels[last]) - full; n > most {
					most = n
				}
			}
			if msg := tr.invalid(); msg != "" {
				t.Fatal(msg)
			}
			t.Logf("%.2f written  %d tables beside full ones  %v %s", float64(tr.merged)/float64(tr.user), most, tr.reasons, tr)
			if most > 3*neighbourGrowth*c.places {
				t.Errorf("%d tables beside those that are full", most)
			}
			if written := float64(tr.merged) / float64(tr.user); written > c.written {
				t.Errorf("%.2f bytes written by merges for each, at most %.2f", written, c.written)
			}
			steps := tr.steps
			tr.settle(t)
			if tr.steps > steps {
				t.Errorf("%d more steps at rest", tr.steps-steps)
			}
		})
	}
}

// smallTables returns a version with that many adjacent tables of the given bytes in a
// level.
func smallTables(level, n int, size int64) *manifest.Version {
	var tables []*manifest.Table
	for i := range n {
		key := fmt.Appendf(nil, "%06d", 10*i)
		seq := base.SeqNum(i + 1)
		tables = append(tables, &manifest.Table{Level: level, Smallest: key, Largest: key, Size: size, SmallestSeq: seq, LargestSeq: seq})
	}
	return shaped(tables...)
}

func TestNeighbours_MergedWhereWorthIt(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	with := func(v *manifest.Version, change func(v *manifest.Version)) *manifest.Version {
		change(v)
		return v
	}
	below := func(key string) func(v *manifest.Version) {
		return func(v *manifest.Version) {
			m := &manifest.Table{Num: 1e6, Level: last, Smallest: []byte(key), Largest: []byte(key), Size: mib, Entries: 1}
			v.Levels[last] = append(v.Levels[last], m)
		}
	}
	for _, c := range []struct {
		name string
		v    *manifest.Version
		s    Shape
		want int // tables merged
	}{
		{"too few", smallTables(last, 15, mib), Shape{Idle: true}, 0},
		{"enough", smallTables(last, 16, mib), Shape{Idle: true}, 16},
		{"too few while others write", smallTables(last, 63, mib), Shape{}, 0},
		{"enough while others write", smallTables(last, 64, mib), Shape{}, 64},
		{"not small", smallTables(last, 100, 8*mib), Shape{Idle: true}, 0},
		{"of falling keys", with(smallTables(last, 16, mib), func(v *manifest.Version) {
			for i, m := range v.Levels[last] {
				m.SmallestSeq, m.LargestSeq = base.SeqNum(100-i), base.SeqNum(100-i)
			}
		}), Shape{Idle: true}, 16},
		{"of one commit", with(smallTables(last, 16, mib), func(v *manifest.Version) {
			for _, m := range v.Levels[last] {
				m.SmallestSeq, m.LargestSeq = 9, 9
			}
		}), Shape{Idle: true}, 16},
		{"of keys that grow in two places", with(smallTables(last, 30, mib), func(v *manifest.Version) {
			for i, m := range v.Levels[last] {
				seq := base.SeqNum(1 + 2*(i%15) + i/15)
				m.SmallestSeq, m.LargestSeq = seq, seq
			}
		}), Shape{Idle: true}, 0},
		{"more than a plan takes", smallTables(last, 400, mib), Shape{Idle: true}, 256},
		{"more than there is room for", smallTables(last, 400, mib), Shape{Idle: true, OutputMax: 20 * mib}, 20},
		{"no room", smallTables(last, 400, mib), Shape{Idle: true, OutputMax: 10 * mib}, 0},
		{"a larger one among them", with(smallTables(last, 30, mib), func(v *manifest.Version) { v.Levels[last][15].Size = 20 * mib }), Shape{Idle: true}, 0},
		{"a damaged one among them", smallTables(last, 30, mib), Shape{Idle: true, Damaged: map[base.FileNum]bool{16: true}}, 0},
		{"those behind a damaged one", smallTables(last, 30, mib), Shape{Idle: true, Damaged: map[base.FileNum]bool{14: true}}, 16},
		{"smaller ones behind larger ones", with(smallTables(last, 26, mib/20), func(v *manifest.Version) {
			for _, m := range v.Levels[last][:10] {
				m.Size = mib
			}
		}), Shape{Idle: true}, 16},
		{"one level up", smallTables(last-1, 16, mib), Shape{Idle: true, BaseSizeMin: 1}, 16},
		{"over others", with(smallTables(last-1, 16, mib), below("000070")), Shape{Idle: true, BaseSizeMin: 1}, 0},
		{"over others between them", with(smallTables(last-1, 16, mib), below("000075")), Shape{Idle: true, BaseSizeMin: 1}, 0},
		{"beside others below", with(smallTables(last-1, 16, mib), below("900000")), Shape{Idle: true, BaseSizeMin: 1}, 16},
	} {
		plan, due := newPicker(c.v, c.s).pickNeighbours()
		if n := len(plan.Tables()); due != (c.want > 0) || n != c.want || due && (plan.Move || !plan.Bottom || plan.Reason != ReasonNeighbours) {
			t.Errorf("%s: due %t, %s, bottom %t, want %d tables", c.name, due, plan.String(), plan.Bottom, c.want)
		}
	}
}

func TestNeighbours_ManualMergesFewerAndNoneThatItMade(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		tables int
		r      Range
		want   int
	}{
		{3, Range{Next: math.MaxUint64}, 0},
		{4, Range{Next: math.MaxUint64}, 4},
		{8, Range{Next: 5}, 4},
		{8, Range{Next: 4}, 0},
		{8, Range{Lo: []byte("000030"), Next: math.MaxUint64}, 5},
		{8, Range{Lo: []byte("000030"), Hi: []byte("000060"), Next: math.MaxUint64}, 0},
	} {
		plan, due := PickRange(smallTables(last, c.tables, mib), Shape{}, c.r)
		if n := len(plan.Tables()); due != (c.want > 0) || n != c.want || due && plan.Reason != ReasonManual {
			t.Errorf("%d tables, %+v: due %t, %s", c.tables, c.r, due, plan.String())
		}
	}
}

// Merging neighbours drops only what no snapshot needs, as all merges in the last level do.
func TestNeighbours_MergeKeepsWhatSnapshotsSee(t *testing.T) {
	t.Parallel()
	for seed := range seeds(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		tr := newTree(Shape{Idle: true}, 64<<10)
		var snapshots []base.SeqNum
		for i := range 100 {
			grains := tr.random(2+rng.IntN(3), func(j int) uint64 { return uint64(10*i + j) })
			for j := range grains {
				if rng.IntN(4) == 0 {
					grains[j].meta.ExpiresAt = 1 + tr.s.NowMs + rng.Uint64N(5000)
				}
			}
			if snapshot := tr.seq; rng.IntN(3) == 0 {
				snapshots = append(snapshots, snapshot)
				grains = append(grains, tr.random(2, func(j int) uint64 { return uint64(10*i + j) })...)
			}
			tr.flush(grains)
			if len(snapshots) > 0 && rng.IntN(2) == 0 {
				snapshots = snapshots[1:]
			}
			tr.s.NowMs += rng.Uint64N(100)
			tr.advance(snapshots...)
			before := tr.sees()
			tr.settle(t)
			if after := tr.sees(); !reflect.DeepEqual(before, after) {
				t.Fatalf("seed %d, flush %d: snapshots saw %d versions before and %d after", seed, i, len(before), len(after))
			}
		}
		if tr.reasons[ReasonNeighbours] == 0 {
			t.Fatalf("seed %d: no neighbours were merged: %v", seed, tr.reasons)
		}
	}
}

// Outputs also end between two keyspaces. Where keyspaces are small, that must not make small
// tables again, or the same tables would be merged for ever.
func TestNeighbours_TablesOfManySmallKeyspacesComeToRest(t *testing.T) {
	t.Parallel()
	const tableSize = 128 << 10
	s := Shape{Idle: true, TableSize: tableSize, BaseSizeMin: 1 << 30, OldestSnapshot: base.SeqNumMax}
	for tenths := 20; tenths <= 80; tenths += 6 {
		var all []base.Entry // of keyspaces that were written one after the other
		for i := range tableSize * tenths / 10 / 120 {
			space := keyspace.New(uint32(1 + i/8))
			all = append(all, base.Entry{Key: space.Append(nil, fmt.Append(nil, i%8)), Value: make([]byte, 100),
				Seq: base.SeqNum(i + 1), Meta: base.Meta{Kind: base.KindSet}})
		}
		out := files{fs: memfs.NewVolatile()}
		run := func(entries []base.Entry, change func(*Job)) []*manifest.Table {
			job := Job{Sources: []iter.Source{&entrySource{entries: entries}}, Rules: seeAll, NewFile: out.create}
			change(&job)
			result, err := Run(job)
			if err != nil {
				t.Fatal(err)
			}
			return result.Tables
		}
		v := &manifest.Version{}
		for small := range slices.Chunk(all, 80) {
			v.Levels[last] = append(v.Levels[last], run(small, func(j *Job) { j.Level, j.TableSize = last, tableSize })...)
		}
		flushed := len(v.Levels[last])
		for steps := 0; ; steps++ {
			plan, due := Pick(v, s)
			if !due {
				break
			}
			if steps == 5 {
				t.Errorf("%d.%d tables of entries: still due after %d merges: %s", tenths/10, tenths%10, steps, plan.String())
				break
			}
			merged := plan.Inputs[last]
			lo, hi := merged[0].Smallest, merged[len(merged)-1].Largest
			from, _ := slices.BinarySearchFunc(all, lo, func(e base.Entry, key []byte) int { return bytes.Compare(e.Key, key) })
			to, _ := slices.BinarySearchFunc(all, hi, func(e base.Entry, key []byte) int { return bytes.Compare(e.Key, key) })
			made := run(all[from:to+1], func(j *Job) { plan.Apply(j, s) })
			next, at := *v, slices.Index(v.Levels[last], merged[0])
			next.Levels[last] = slices.Replace(slices.Clone(v.Levels[last]), at, at+len(merged), made...)
			v = &next
		}
		if n := len(v.Levels[last]); n >= flushed {
			t.Errorf("%d.%d tables of entries: %d tables of %d are left", tenths/10, tenths%10, n, flushed)
		}
	}
}
