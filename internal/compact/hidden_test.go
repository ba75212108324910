package compact

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// The tree has a table of level 0 over one of the last level, while other commits run.
func TestHidden_Level0IsMergedForWhatItsDeletionsHide(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		name              string
		deletions, ranges uint64 // all entries of level 0, over 1000 others
		tables, values    uint64 // bytes of the last level, and of what it refers to
		ageMs             int64
		stoodMs           uint64 // for how long the clock has stood still
		snapshot          bool   // a snapshot does not see the deletions
		due               bool
	}{
		{name: "long values", deletions: 1000, tables: mib, values: 100 * mib, due: true},
		{name: "no deletions", tables: mib, values: 100 * mib},
		{name: "a sixteenth of all", deletions: 70, tables: mib, values: 100 * mib, due: true},
		{name: "less than that", deletions: 50, tables: mib, values: 100 * mib},
		{name: "little in all", deletions: 1000, tables: mib / 8, values: mib / 2},
		{name: "many short values", deletions: 700, tables: 100 * mib, due: true},
		{name: "short values, rewritten for few", deletions: 300, tables: 100 * mib},
		{name: "that a snapshot does not see", deletions: 1000, tables: mib, values: 100 * mib, snapshot: true},
		{name: "old ones", deletions: 1, tables: 100 * mib, ageMs: 24 * 60 * 60 * 1000, due: true},
		{name: "a new range", ranges: 1, tables: mib, values: 100 * mib},
		{name: "a range of some seconds", ranges: 1, tables: mib, values: 100 * mib, ageMs: 11_000, due: true},
		{name: "a range while the clock stands still", ranges: 1, tables: mib, values: 100 * mib, stoodMs: 11_000, due: true},
		{name: "old ones while the clock stands still", deletions: 1, tables: 100 * mib, stoodMs: 24 * 60 * 60 * 1000, due: true},
		{name: "a range of a time to come", ranges: 1, tables: mib, values: 100 * mib, ageMs: -3_600_000},
		{name: "a range over large tables", ranges: 1, tables: 160 * mib, values: 100 * mib, ageMs: 11_000},
		{name: "a range that waited for large tables", ranges: 1, tables: 160 * mib, values: 100 * mib, ageMs: 21_000, due: true},
	} {
		s := Shape{NowMs: 1 << 40, OldestSnapshot: 20}
		s.AgeMs = s.NowMs + c.stoodMs
		if c.snapshot {
			s.OldestSnapshot = 9
		}
		v := shaped(
			&manifest.Table{Level: 0, Run: 1, Smallest: []byte("a"), Largest: []byte("z"), Size: 10_000, LargestSeq: 10,
				Entries: max(1, c.deletions), Deletions: c.deletions, RangeDeletions: c.ranges, CreatedMs: s.NowMs - uint64(c.ageMs)},
			&manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: int64(c.tables), LargestSeq: 5,
				Entries: 1000, Values: manifest.ValueRefsOf(manifest.ValueRef{File: 9, Bytes: c.values})},
		)
		v.Values = []manifest.LiveValues{{ValueFile: &manifest.ValueFile{Num: 9, Bytes: c.values}, Live: c.values}}
		p, due := Pick(v, s)
		if due != c.due {
			t.Errorf("%s: picked %s, want that something is due: %t", c.name, p.String(), c.due)
		}
		if due && (p.Reason != ReasonDeletions || len(p.Inputs[0]) != 1 || len(p.Inputs[last]) != 1) {
			t.Errorf("%s: picked %s", c.name, p.String())
		}
	}
}

// Level 0 has ten entries over a million short ones and ten long values.
func TestHidden_Level0IsMergedForWhatTheFlusherMeasured(t *testing.T) {
	t.Parallel()
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		name      string
		deletions uint64
		hides     int64
		snapshot  bool // a snapshot does not see the entries of level 0
		scarce    bool
		due       bool
	}{
		{name: "long values were deleted", deletions: 10, hides: 10 * gib, due: true},
		{name: "long values were replaced by short ones", hides: 10 * gib, due: true},
		{name: "a snapshot needs the long values", hides: 10 * gib, snapshot: true},
		{name: "short values were replaced", hides: 1000},
		{name: "deletions after a restart", deletions: 10},
		{name: "deletions after a restart on a scarce disk", deletions: 10, scarce: true, due: true},
		{name: "a snapshot on a scarce disk", deletions: 10, snapshot: true, scarce: true},
	} {
		s := Shape{NowMs: 1 << 40, OldestSnapshot: 20, Idle: c.scarce, Scarce: c.scarce}
		if c.snapshot {
			s.OldestSnapshot = 9
		}
		s.Hides = map[base.FileNum]int64{1: c.hides}
		v := shaped(
			&manifest.Table{Level: 0, Run: 1, Smallest: []byte("a"), Largest: []byte("z"), Size: 1000, LargestSeq: 10,
				Entries: 10, Deletions: c.deletions, CreatedMs: s.NowMs},
			&manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: 56 * mib, LargestSeq: 5,
				Entries: 1_000_000, Values: manifest.ValueRefsOf(manifest.ValueRef{File: 9, Bytes: 10 * gib})},
		)
		v.Values = []manifest.LiveValues{{ValueFile: &manifest.ValueFile{Num: 9, Bytes: 10 * gib}, Live: 10 * gib}}
		if p, due := Pick(v, s); due != c.due {
			t.Errorf("%s: picked %s, want that something is due: %t", c.name, p.String(), c.due)
		}
	}
}

func TestIdle_ShortValuesOverAsManyLongOnesAreMerged(t *testing.T) {
	t.Parallel()
	for entries, want := range map[uint64]bool{2_500_000: true, 313_000: true, 312_000: false} {
		v := shaped(
			&manifest.Table{Level: 0, Run: 1, Smallest: []byte("a"), Largest: []byte("z"), Size: 75e6, LargestSeq: 10, Entries: entries},
			&manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: 1050e6, LargestSeq: 5, Entries: 2_500_000},
		)
		p, due := Pick(v, Shape{BaseSizeMin: 256 << 20, NowMs: 1 << 40, OldestSnapshot: 20, Idle: true})
		if due != want {
			t.Errorf("%d entries: picked %s, want that something is due: %t", entries, p.String(), want)
		}
	}
}
