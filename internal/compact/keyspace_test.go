package compact

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// entriesOf returns keys of keyspaces, each key with some versions.
func entriesOf(counts map[uint32]int, versions int, value []byte) (all []base.Entry) {
	for number := range uint32(3000) {
		s := keyspace.New(number)
		for i := range counts[number] {
			key := s.Append(nil, fmt.Appendf(nil, "key-%06d", i))
			for v := range versions {
				all = append(all, base.Entry{Key: key, Value: value, Seq: base.SeqNum(versions - v), Meta: base.Meta{Kind: base.KindSet}})
			}
		}
	}
	return all
}

// runOf runs a merge of entries, in which each keyspace has rules of its own.
func runOf(t *testing.T, all []base.Entry, change func(j *Job)) []*manifest.Table {
	t.Helper()
	out := files{fs: memfs.New()}
	job := Job{Sources: []iter.Source{&entrySource{entries: all}}, Rules: seeAll, TableSize: 100_000, NewFile: out.create}
	change(&job)
	result, err := Run(job)
	if err != nil {
		t.Fatal(err)
	}
	return result.Tables
}

func TestKeyspaces_LargeOnesGetTablesOfTheirOwn(t *testing.T) {
	t.Parallel()
	counts := map[uint32]int{0: 2000, 1: 2000, 2: 30, 3: 30, 4: 2000, 300: 10}
	own := map[uint32]uint64{} // keys in tables of one keyspace
	for _, m := range runOf(t, entriesOf(counts, 1, make([]byte, 100)), func(*Job) {}) {
		first, err := keyspace.NumberOf(m.Smallest)
		last, err2 := keyspace.NumberOf(m.Largest)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if first == last {
			own[first] += m.Keys
		}
	}
	for _, number := range []uint32{0, 1, 4} {
		if own[number] < 1100 {
			t.Errorf("%d of 2,000 keys of keyspace %d are in tables of their own, want 1,100 or more: the first and the last table may be shared", own[number], number)
		}
	}
}

func TestKeyspaces_AThousandSmallOnesShareTables(t *testing.T) {
	t.Parallel()
	counts := map[uint32]int{}
	for number := range uint32(1000) {
		counts[number] = 2
	}
	tables := runOf(t, entriesOf(counts, 1, make([]byte, 100)), func(*Job) {})
	if n := len(tables); n > 12 {
		t.Errorf("%d tables of 1,000 keyspaces with 230 kB, want at most 12", n)
	}
}

func TestKeyspaces_EachKeepsItsVersions(t *testing.T) {
	t.Parallel()
	counts := map[uint32]int{0: 10, 1: 10, 2: 10, 240: 10, 241: 10}
	keep := func(number uint32) int { return 1 + int(number%4) }
	want := uint64(0)
	for number, n := range counts {
		want += uint64(n * keep(number))
	}
	got := uint64(0)
	for _, m := range runOf(t, entriesOf(counts, 6, []byte("v")), func(j *Job) { j.Rules.VersionsOf = keep }) {
		got += m.Entries
	}
	if got != want {
		t.Errorf("%d entries stay, want %d", got, want)
	}
}

func TestKeyspaces_EachHasItsCodec(t *testing.T) {
	t.Parallel()
	counts := map[uint32]int{0: 100, 1: 100, 2: 100}
	value := bytes.Repeat([]byte("compress me "), 20)
	size := func(compressed ...uint32) (bytes int64) {
		for _, m := range runOf(t, entriesOf(counts, 1, value), func(j *Job) {
			j.TableSize = 1 << 20
			j.Codec = func(number uint32) codec.ID {
				for _, c := range compressed {
					if c == number {
						return codec.S2
					}
				}
				return codec.None
			}
		}) {
			bytes += m.Size
		}
		return bytes
	}
	none, all := size(), size(0, 1, 2)
	for number := range uint32(3) {
		if saved, most := none-size(number), none-all; saved < most/4 || saved > most/2 {
			t.Errorf("compression of keyspace %d saves %d bytes, that of all three %d", number, saved, most)
		}
	}
}

func TestSurplus_OfATableInOneKeyspaceGoesByItsSetting(t *testing.T) {
	t.Parallel()
	s := Shape{Versions: 5, OldestSnapshot: 100, VersionsOf: func(number uint32) int { return int(number) }}
	for _, c := range []struct {
		smallest, largest string
		exclusive         bool
		want              int
	}{
		{"\xff\x02a", "\xff\x02z", false, 2},
		{"\xff\x02a", "\xff\x03", true, 2},
		{"\xff\x02a", "\xff\x03", false, 5},
		{"\xff\x02a", "\xff\x03a", false, 5},
		{"a", "\xff\x01a", false, 5},
		{"\xff\xf1\x00\x00\x00\xf1a", "\xff\xf1\x00\x00\x00\xf1b", false, 241},
	} {
		m := &manifest.Table{Smallest: []byte(c.smallest), Largest: []byte(c.largest), LargestExclusive: c.exclusive, LargestSeq: 1, Keys: 10, Entries: 1000}
		if got, want := s.surplus(m), uint64(max(0, 1000-10*c.want)); got != want {
			t.Errorf("table from %q to %q: surplus %d, want %d", c.smallest, c.largest, got, want)
		}
	}
}
