package compact

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

func TestGarbage_VersionsWithTimestampsExpire(t *testing.T) {
	t.Parallel()
	const mark = stamp.ExpiryMark
	stamped := manifest.Table{Entries: 1000, Keys: 1000, Expiring: 1000, OldestExpiry: 1000 | mark, NewestExpiry: 2000 | mark}
	withParts := stamped
	withParts.NewestExpiry, withParts.TenthExpired, withParts.HalfExpired = 1_000_000_000|mark, 1200, 1500
	mixed := stamped
	mixed.OldestExpiry, mixed.TenthExpired, mixed.HalfExpired = 1e9, 1200, 1500
	older := mixed
	older.TenthExpired, older.HalfExpired = 0, 0
	for _, c := range []struct {
		what  string
		table manifest.Table
		now   uint64
		part  float64 // worth a rewrite
		once  bool    // Compact rewrites the table
	}{
		{"none has expired", stamped, 999, 0, false},
		{"the first has expired", stamped, 1000, 0, true},
		{"half have expired", stamped, 1500, 0.5, true},
		{"all have expired", stamped, 2000, 1, true},
		{"one lives long, none has expired", withParts, 999, 0, false},
		{"one lives long, fewer than a tenth have expired", withParts, 1199, 0, true},
		{"one lives long, a tenth has expired", withParts, 1200, 0.1, true},
		{"one lives long, half have expired", withParts, 1500, 0.5, true},
		{"a value without timestamp lives long, fewer than a tenth have expired", mixed, 1199, 0, true},
		{"a value without timestamp lives long, a tenth has expired", mixed, 1200, 0.1, true},
		{"a value without timestamp lives long, half have expired", mixed, 1500, 0.5, true},
		{"a table of an older database, half have expired", older, 1500, 0, true},
		{"a table of an older database, all with timestamps have expired", older, 2000, 1, true},
	} {
		s := Shape{NowMs: c.now, Idle: true, OldestSnapshot: base.SeqNumMax}.withDefaults()
		p := picker{v: new(manifest.Version), s: s}
		if part, _ := p.garbageOf(&c.table, last); part != c.part {
			t.Errorf("%s: a part of %v is worth a rewrite, want %v", c.what, part, c.part)
		}
		if once := s.shrinksOnce(&c.table); once != c.once {
			t.Errorf("%s: Compact rewrites the table: %t, want %t", c.what, once, c.once)
		}
		if s.dead(&c.table) {
			t.Errorf("%s: the table is dropped unread", c.what)
		}
		if s.OldestSnapshot, c.table.LargestSeq = 4, 5; s.shrinksOnce(&c.table) {
			t.Errorf("%s: Compact rewrites the table beside a snapshot", c.what)
		}
	}
}

// Partial entries may keep the values without timestamps, but not those with timestamps.
func TestGarbage_PartialEntriesKeepNoVersionsWithTimestamps(t *testing.T) {
	t.Parallel()
	for oldest, want := range map[uint64]float64{1000: 0, 1000 | stamp.ExpiryMark: 1} {
		m := &manifest.Table{Level: last, Entries: 1000, Keys: 1000, Expiring: 1000, OldestExpiry: oldest, NewestExpiry: 2000 | stamp.ExpiryMark,
			TenthExpired: 1100, HalfExpired: 1500, Smallest: []byte("a"), Largest: []byte("z")}
		above := &manifest.Table{Entries: 1000, Keys: 1000, Partials: 1, Smallest: []byte("b"), Largest: []byte("y")}
		p := newPicker(shaped(above, m), Shape{NowMs: 2000, OldestSnapshot: base.SeqNumMax})
		if part, _ := p.garbageOf(m, last); part != want {
			t.Errorf("earliest expiry %d: a part of %v is worth a rewrite, want %v", oldest, part, want)
		}
	}
}

// One entry in a hundred expires.
func TestGarbage_FewValuesAreWorthARewriteIfTheyMayHaveMostBytes(t *testing.T) {
	t.Parallel()
	for _, mark := range []uint64{0, stamp.ExpiryMark} {
		for _, c := range []struct {
			what     string
			referred uint64
			now      uint64
			shape    Shape
			want     bool
		}{
			{"a busy database", 1000, 2000, Shape{}, false},
			{"an idle database", 1000, 2000, Shape{Idle: true}, true},
			{"a full disk", 1000, 2000, Shape{Scarce: true}, true},
			{"one has not expired", 1000, 1999, Shape{Idle: true}, false},
			{"most bytes are in the table", 999, 2000, Shape{Idle: true}, false},
		} {
			m := manifest.Table{Size: 1000, Entries: 1000, Keys: 1000, Expiring: 10, OldestExpiry: 1000 | mark, NewestExpiry: 2000 | mark,
				Values: manifest.ValueRefsOf(manifest.ValueRef{File: 1, Bytes: c.referred})}
			c.shape.NowMs, c.shape.OldestSnapshot = c.now, base.SeqNumMax
			p := picker{v: new(manifest.Version), s: c.shape.withDefaults()}
			if part, _ := p.garbageOf(&m, last); (part > 0) != c.want {
				t.Errorf("%s, mark %d: a part of %v is worth a rewrite, want %t", c.what, mark, part, c.want)
			}
		}
	}
}
