package compact

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An entrySource is a forward iter.Source over entries. Its keys are valid until the next
// Fill, like those of tables.
type entrySource struct {
	entries []base.Entry
	at      int
	fail    error // returned by the last Fill
	keys    []byte
}

func (s *entrySource) Seek(key []byte) {
	s.at, _ = slices.BinarySearchFunc(s.entries, key, func(e base.Entry, key []byte) int {
		return cmp.Or(bytes.Compare(e.Key, key), 1)
	})
}

func (s *entrySource) Fill(b *iter.Batch) error {
	for i := range s.keys {
		s.keys[i] = 0xdb
	}
	s.keys = make([]byte, 0, 64*b.Want)
	for b.N = 0; b.N < b.Want && s.at < len(s.entries); s.at++ {
		e := &s.entries[s.at]
		from := len(s.keys)
		s.keys = append(s.keys, e.Key...)
		b.Entries[b.N] = base.Entry{Key: s.keys[from:len(s.keys):len(s.keys)], Value: e.Value, Seq: e.Seq, Meta: e.Meta}
		b.N++
	}
	if s.at == len(s.entries) && s.fail != nil {
		b.N = 0
		return s.fail
	}
	return nil
}

func compareEntries(a, b base.Entry) int {
	return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(b.Seq, a.Seq))
}

// randomEntries returns entries in order, and the same entries distributed to sources.
func randomEntries(rng *rand.Rand, n, sources int) ([]base.Entry, []iter.Source) {
	var all []base.Entry
	parts := make([]entrySource, sources)
	keys := 1 + rng.IntN(n)
	for seq := range n {
		e := base.Entry{
			Key: fmt.Appendf(nil, "key-%05d", rng.IntN(keys)), Seq: base.SeqNum(seq + 1),
			Meta: base.Meta{Kind: base.KindSet, User: byte(rng.IntN(3))},
		}
		switch rng.IntN(6) {
		case 0:
			e.Meta.Kind = base.KindDelete
		case 1:
			e.Meta.ExpiresAt = uint64(1 + rng.IntN(200))
		}
		if e.Meta.Kind == base.KindSet {
			e.Value = noise.Bytes(rng, rng.IntN(400))
		}
		all = append(all, e)
		s := &parts[rng.IntN(sources)]
		s.entries = append(s.entries, e)
	}
	slices.SortFunc(all, compareEntries)
	var out []iter.Source
	for i := range parts {
		slices.SortFunc(parts[i].entries, compareEntries)
		out = append(out, &parts[i])
	}
	return all, out
}

// files makes the files of jobs in fs.
type files struct {
	fs        vfs.FS
	last      atomic.Uint64
	deletions *rangedel.List // of all tables read
}

func (f *files) create() (NewFile, error) {
	n := base.FileNum(f.last.Add(1))
	file, err := f.fs.Create(f.fs.Join("/", base.TableName(n)), vfs.CatTable)
	return NewFile{Num: n, File: file, Salt: uint64(n)}, err
}

// read returns the entries of tables in order, and checks the tables' metadata.
func (f *files) read(t *testing.T, tables []*manifest.Table) []base.Entry {
	t.Helper()
	var all []base.Entry
	for _, m := range tables {
		file, err := f.fs.Open(f.fs.Join("/", base.TableName(m.Num)), vfs.CatTable)
		if err != nil {
			t.Fatal(err)
		}
		r, err := table.Open(file, m.Size, base.TableName(m.Num), table.ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(); err != nil {
			t.Error(err)
		}
		from := len(all)
		it := r.NewIter(table.IterOptions{})
		it.Seek(nil)
		var b iter.Batch
		for b.Want = iter.BatchSize; ; {
			if err := it.Fill(&b); err != nil {
				t.Fatal(err)
			}
			if b.N == 0 {
				break
			}
			for i := range b.N {
				e := b.Entries[i]
				e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
				all = append(all, e)
			}
		}
		checkTable(t, m, all[from:], r.Deletions())
		f.deletions = rangedel.Merge(f.deletions, r.Deletions())
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	return all
}

func checkTable(t *testing.T, m *manifest.Table, entries []base.Entry, deletions *rangedel.List) {
	t.Helper()
	want := manifest.Table{
		Num: m.Num, Size: m.Size, Salt: uint64(m.Num), Level: m.Level, Run: m.Run, CreatedMs: m.CreatedMs,
		SmallestSeq: base.SeqNumMax, Values: m.Values, RangeDeletions: uint64(deletions.Numbers()),
	}
	if len(entries) > 0 {
		want.Smallest, want.Largest = entries[0].Key, entries[len(entries)-1].Key
	}
	if deletions.Len() > 0 {
		lo, hi := deletions.Bounds()
		if len(entries) == 0 || bytes.Compare(lo, want.Smallest) < 0 {
			want.Smallest = lo
		}
		if bytes.Compare(hi, want.Largest) > 0 {
			want.Largest, want.LargestExclusive = hi, true
		}
		want.LargestSeq, want.SmallestSeq = deletions.Seqs()
	}
	var expiries []uint64
	for i, e := range entries {
		want.Entries++
		if i == 0 || !bytes.Equal(e.Key, entries[i-1].Key) {
			want.Keys++
		}
		want.SmallestSeq, want.LargestSeq = min(want.SmallestSeq, e.Seq), max(want.LargestSeq, e.Seq)
		want.KeyBytes += uint64(len(e.Key))
		want.ValueBytes += uint64(len(e.Value))
		switch e.Meta.Kind {
		case base.KindDelete:
			want.Deletions++
		case base.KindPointer:
			want.Pointers++
		case base.KindMerge, base.KindRenew:
			want.Partials++
		}
		if x := e.Meta.ExpiresAt; x != 0 {
			want.Expiring++
			expiries = append(expiries, x)
			want.NewestExpiry = max(want.NewestExpiry, x)
			if want.OldestExpiry == 0 || x < want.OldestExpiry {
				want.OldestExpiry = x
			}
		}
	}
	slices.Sort(expiries)
	if n := int(want.Entries+9) / 10; n <= len(expiries) && n > 0 {
		want.TenthExpired = expiries[n-1]
	}
	if n := int(want.Entries+1) / 2; n <= len(expiries) && n > 0 {
		want.HalfExpired = expiries[n-1]
	}
	if m.Values.Len() > 1 {
		want.Jumps = want.Pointers - 1 // the tests place values in alternating files
	}
	if got := fmt.Sprintf("%+v", *m); got != fmt.Sprintf("%+v", want) {
		t.Errorf("table %s\nwant  %+v", got, want)
	}
}

// parts cuts a job into that many parts, at random keys.
func parts(rng *rand.Rand, job Job, n, keys int) []Job {
	jobs := []Job{job}
	for from := 0; len(jobs) < n; {
		from += rng.IntN(keys)
		at := fmt.Appendf(nil, "key-%05d", from)
		next := job
		next.From, jobs[len(jobs)-1].To = at, at
		next.Sources = nil
		for _, s := range job.Sources {
			next.Sources = append(next.Sources, &entrySource{entries: s.(*entrySource).entries})
		}
		jobs = append(jobs, next)
	}
	return jobs
}

// The test merges random sources, as one job or in parts, and compares the tables with the
// rules applied to all entries in order.
func TestRun_KeepsWhatTheRulesKeep(t *testing.T) {
	t.Parallel()
	for seed := range seeds(150) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(3000)
		all, sources := randomEntries(rng, n, 1+rng.IntN(6))
		rules := Rules{Versions: 1 + rng.IntN(2), NowMs: uint64(rng.IntN(2) * 100), Bottom: rng.IntN(2) == 0}
		for s := base.SeqNum(1 + rng.IntN(n)); len(rules.Snapshots) < 1+rng.IntN(3); s += base.SeqNum(1 + rng.IntN(n)) {
			rules.Snapshots = append(rules.Snapshots, s)
		}
		out := files{fs: memfs.New()}
		job := Job{
			Sources: sources, Rules: rules, Level: 3, CreatedMs: 17,
			TableSize: int64(1000 + rng.IntN(100_000)), SplitMin: int64(rng.IntN(20_000)), NewFile: out.create,
		}
		for i := 0; i < 3000; i += 1 + rng.IntN(1000) {
			job.Splits = append(job.Splits, fmt.Appendf(nil, "key-%05d", i))
		}
		job.Deletions = randomDeletions(rng, n)
		result, err := RunParts(parts(rng, job, 1+rng.IntN(3), n))
		if err != nil {
			t.Fatal(err)
		}
		want := retainedEntries(rules, all, job.Deletions)
		got := out.read(t, result.Tables)
		if !slices.EqualFunc(got, want, sameEntry) {
			t.Fatalf("seed %d: %d entries, want %d", seed, len(got), len(want))
		}
		deletions := job.Deletions.Retain(rules.Snapshots, rules.Bottom)
		if !bytes.Equal(out.deletions.AppendTo(nil), deletions.AppendTo(nil)) {
			t.Fatalf("seed %d: range deletions %v, want %v", seed, out.deletions, deletions)
		}
		if len(result.Files) != len(result.Tables) {
			t.Errorf("seed %d: result %+v of %d entries, %d kept", seed, result, n, len(want))
		}
		for i, m := range result.Tables {
			if len(m.Largest) > base.MaxKeySize && &m.Largest[0] != &base.EndOfKeys[0] {
				t.Errorf("seed %d: the end of all keys was copied", seed)
			}
			if i == 0 {
				continue
			}
			if before := result.Tables[i-1]; !before.EndsBefore(m.Smallest) {
				t.Errorf("seed %d: table to %q, next from %q", seed, before.Largest, m.Smallest)
			}
		}
	}
}

func sameEntry(a, b base.Entry) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Seq == b.Seq && a.Meta == b.Meta
}

// randomDeletions returns a few range tombstones, often none. Some extend beyond all keys, and
// some have no end.
func randomDeletions(rng *rand.Rand, n int) *rangedel.List {
	var deletions []rangedel.Deletion
	for range rng.IntN(2) * rng.IntN(6) {
		lo := rng.IntN(n)
		deletions = append(deletions, rangedel.Deletion{
			Lo: fmt.Appendf(nil, "key-%05d", lo), Hi: fmt.Appendf(nil, "key-%05d", lo+1+rng.IntN(n)),
			Seq: base.SeqNum(1 + rng.IntN(n)),
		})
		if rng.IntN(6) == 0 {
			deletions[len(deletions)-1].Hi = base.EndOfKeys
		}
	}
	return rangedel.Build(deletions)
}

func retainedEntries(rules Rules, all []base.Entry, deletions *rangedel.List) []base.Entry {
	r := NewRetain(rules, deletions)
	var kept []base.Entry
	for i, e := range all {
		if i == 0 || !bytes.Equal(e.Key, all[i-1].Key) {
			r.Begin(e.Key)
		}
		switch r.Judge(e.Seq, &e.Meta) {
		case Keep:
			kept = append(kept, e)
		case KeepTombstone:
			kept = append(kept, base.Entry{Key: e.Key, Seq: e.Seq, Meta: base.Meta{Kind: base.KindDelete}})
		}
	}
	return kept
}

// manyEntries returns n keys of one version each.
func manyEntries(n, valueSize int) []base.Entry {
	var all []base.Entry
	for i := range n {
		all = append(all, base.Entry{
			Key: fmt.Appendf(nil, "key-%06d", i), Value: bytes.Repeat([]byte{byte(i)}, valueSize),
			Seq: base.SeqNum(i + 1), Meta: base.Meta{Kind: base.KindSet},
		})
	}
	return all
}

var seeAll = Rules{Versions: 1, Snapshots: []base.SeqNum{1 << 40}}

func TestRun_OutputsEndAtSplits(t *testing.T) {
	t.Parallel()
	out := files{fs: memfs.New()}
	splits := [][]byte{[]byte("key-000010"), []byte("key-001000"), []byte("key-0015"), []byte("key-003000"), []byte("x")}
	result, err := Run(Job{
		Sources: []iter.Source{&entrySource{entries: manyEntries(5000, 100)}}, Rules: seeAll,
		TableSize: 1 << 30, SplitMin: 65_000, Splits: splits, NewFile: out.create,
	})
	if err != nil {
		t.Fatal(err)
	}
	var starts []string
	for _, m := range result.Tables {
		starts = append(starts, string(m.Smallest))
	}
	if want := []string{"key-000000", "key-001000", "key-003000"}; !slices.Equal(starts, want) {
		t.Errorf("tables begin at %q, want %q", starts, want)
	}
}

// Tables with the keys h and p stay. The inputs have versions of other keys, and range
// tombstones before, between and after these two.
func TestRun_NoOutputReachesAroundATableThatStays(t *testing.T) {
	t.Parallel()
	deletion := func(lo, hi string) rangedel.Deletion {
		return rangedel.Deletion{Lo: []byte(lo), Hi: []byte(hi), Seq: 1000}
	}
	for name, c := range map[string]struct {
		keys      string
		deletions []rangedel.Deletion
		want      []string // the bounds of the outputs
	}{
		"keys":                           {"abijxy", nil, []string{"ab", "ij", "xy"}},
		"a deletion before the next key": {"ay", []rangedel.Deletion{deletion("x", "y")}, []string{"aa", "xy"}},
		"a deletion between":             {"ay", []rangedel.Deletion{deletion("i", "k")}, []string{"aa", "ik", "yy"}},
		"deletions in every gap": {"", []rangedel.Deletion{deletion("b", "c"), deletion("i", "k"), deletion("x", "z")},
			[]string{"bc", "ik", "xz"}},
		"a deletion after the last key": {"a", []rangedel.Deletion{deletion("x", "z")}, []string{"aa", "xz"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var entries []base.Entry
			for _, k := range c.keys {
				entries = append(entries, base.Entry{Key: []byte(string(k)), Seq: 2000, Meta: base.Meta{Kind: base.KindSet}})
			}
			out := files{fs: memfs.New()}
			result, err := Run(Job{
				Sources: []iter.Source{&entrySource{entries: entries}}, Deletions: rangedel.Build(c.deletions),
				Rules: seeAll, TableSize: 1 << 20, Splits: [][]byte{[]byte("h"), []byte("p")}, Around: true, NewFile: out.create,
			})
			var got []string
			for _, m := range result.Tables {
				got = append(got, string(m.Smallest)+string(m.Largest))
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("the outputs are %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A table that stays has a version of the key between those of the job. The newest version
// is a deletion that the job holds until it has seen all versions.
func TestRun_HeldDeletionDoesNotReachAroundATableThatStays(t *testing.T) {
	t.Parallel()
	space := keyspace.New(1)
	version := func(at uint64, kind base.Kind, seq base.SeqNum) base.Entry {
		return base.Entry{Key: stamp.Append(space.Append(nil, nil), []byte("k"), at), Seq: seq, Meta: base.Meta{Kind: kind}}
	}
	rules := seeAll
	rules.Bottom = true
	out := files{fs: memfs.New()}
	result, err := Run(Job{
		Sources: []iter.Source{&entrySource{entries: []base.Entry{version(70, base.KindStampDelete, 9), version(30, base.KindSet, 1<<40+1)}}},
		Rules:   rules, TableSize: 1 << 20, Splits: [][]byte{version(50, base.KindSet, 2).Key}, Around: true, NewFile: out.create,
		Discard: func(uint32) Discard { return Discard{Timed: true, Below: 100, Settled: 100} },
	})
	if err != nil || len(result.Tables) != 2 {
		t.Errorf("%d outputs, %v, want one on each side", len(result.Tables), err)
	}
}

// Runs from before the last opening have no filter, and most searches in them find nothing.
func TestRun_IndexesOfLevel0AreSparse(t *testing.T) {
	t.Parallel()
	const keys = 3000
	size := func(level int) int64 {
		out := files{fs: memfs.New()}
		result, err := Run(Job{Level: level, Rules: seeAll, TableSize: 1 << 30, NewFile: out.create,
			Sources: []iter.Source{&entrySource{entries: manyEntries(keys, 50)}}})
		if err != nil {
			t.Fatal(err)
		}
		return result.BytesWritten
	}
	// Two slots of four bytes a key, not four thirds of one; in whole pages.
	if more := size(0) - size(6); more < keys*8/3-4096 || more > keys*8/3+4096 {
		t.Errorf("a table of level 0 is %d bytes larger than one of the last level", more)
	}
}

func TestRun_TablesOfARunShareAFilter(t *testing.T) {
	t.Parallel()
	all := manyEntries(3000, 50)
	out := files{fs: memfs.New()}
	job := Job{Rules: seeAll, TableSize: 20_000, NewFile: out.create, Filter: filter.NewBuilder(3000)}
	halves := []Job{job, job}
	halves[0].To, halves[1].From = all[1500].Key, all[1500].Key
	for i := range halves {
		halves[i].Sources = []iter.Source{&entrySource{entries: all}}
	}
	result, err := RunParts(halves)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Tables) < 4 {
		t.Errorf("only %d tables", len(result.Tables))
	}
	for _, m := range result.Tables {
		for _, e := range all {
			if !m.Filter.May(base.Hash(e.Key, job.Writer.HashSeed)) {
				t.Fatalf("the filter of table %d does not hold %s", m.Num, e.Key)
			}
		}
		if m.Filter.May(base.Hash([]byte("no such key"), job.Writer.HashSeed)) {
			t.Errorf("the filter of table %d holds a key that was not added", m.Num)
		}
	}
}

func TestRun_VersionsOfOneKeyStayInOneTable(t *testing.T) {
	t.Parallel()
	var all []base.Entry
	for i := range 2000 {
		all = append(all, base.Entry{
			Key: fmt.Appendf(nil, "key-%d", i/500), Value: make([]byte, 1000),
			Seq: base.SeqNum(2000 - i), Meta: base.Meta{Kind: base.KindSet},
		})
	}
	out := files{fs: memfs.New()}
	result, err := Run(Job{
		Sources: []iter.Source{&entrySource{entries: all}}, Rules: Rules{Versions: 1000, Snapshots: []base.SeqNum{5000}},
		TableSize: 10_000, NewFile: out.create,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Tables) != 4 || result.Tables[0].Entries != 500 {
		t.Errorf("%d tables, the first with %d entries", len(result.Tables), result.Tables[0].Entries)
	}
}

// The test puts every third value into a file.
func TestRun_PlaceTurnsValuesIntoPointers(t *testing.T) {
	t.Parallel()
	all := manyEntries(3000, 50)
	all[1].Meta, all[1].Value = base.Meta{Kind: base.KindDelete, ExpiresAt: 5}, nil
	out := files{fs: memfs.New()}
	n := 0
	result, err := Run(Job{
		Sources: []iter.Source{&entrySource{entries: all}}, Rules: seeAll, TableSize: 20_000, NewFile: out.create,
		Place: func(e *base.Entry) (manifest.ValueRef, bool, error) {
			if n++; n%3 != 0 {
				return manifest.ValueRef{}, false, nil
			}
			at := values.NewPointer(base.FileNum(1+n%2), int64(n)*80, 80, uint32(len(e.Value)))
			e.Meta.Kind, e.Value = base.KindPointer, at.AppendTo(nil)
			return manifest.ValueRef{File: at.File, Bytes: values.RefBytes(at)}, true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var pointers, refs uint64
	for _, m := range result.Tables {
		pointers += m.Pointers
		for ref := range m.Values.All() {
			refs += ref.Bytes
		}
	}
	if n != 2999 || pointers != 999 || refs != 999*80 {
		t.Errorf("asked for %d values; %d pointers to %d bytes", n, pointers, refs)
	}
	for i, e := range out.read(t, result.Tables) {
		if i == 1 && e.Meta != (base.Meta{Kind: base.KindDelete}) {
			t.Errorf("a deletion became %+v", e.Meta)
		}
	}
}

var errStop = errors.New("stop")

func TestRun_StopEndsTheJobAndNamesItsFiles(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many entries": 10, "large values": 100_000} {
		out := files{fs: memfs.New()}
		asked := 0
		n := 20_000
		if size > 10 {
			n = 100
		}
		result, err := Run(Job{
			Sources: []iter.Source{&entrySource{entries: manyEntries(n, size)}}, Rules: seeAll,
			TableSize: 1000, NewFile: out.create,
			Stop: func() error {
				if asked++; asked == 3 {
					return errStop
				}
				return nil
			},
		})
		if !errors.Is(err, errStop) || asked != 3 {
			t.Errorf("%s: error %v after %d questions", name, err, asked)
		}
		if result.Tables != nil || len(result.Files) != int(out.last.Load()) || len(result.Files) == 0 {
			t.Errorf("%s: result %+v, %d files", name, result, out.last.Load())
		}
	}
}

func TestRun_ErrorOfASourceEndsTheJob(t *testing.T) {
	t.Parallel()
	out := files{fs: memfs.New()}
	good := &entrySource{entries: manyEntries(500, 10)}
	bad := &entrySource{entries: manyEntries(400, 10)[300:], fail: errStop}
	result, err := Run(Job{Sources: []iter.Source{good, bad}, Rules: seeAll, TableSize: 1 << 20, NewFile: out.create})
	if !errors.Is(err, errStop) || len(result.Files) != int(out.last.Load()) {
		t.Errorf("error %v, result %+v", err, result)
	}
}

func TestRun_NothingToKeepMakesNoTable(t *testing.T) {
	t.Parallel()
	all := manyEntries(100, 10)
	for i := range all {
		all[i].Meta.ExpiresAt = 5
	}
	out := files{fs: memfs.New()}
	rules := seeAll
	rules.NowMs, rules.Bottom = 10, true
	result, err := Run(Job{Sources: []iter.Source{&entrySource{entries: all}}, Rules: rules, TableSize: 1 << 20, NewFile: out.create})
	if err != nil || len(result.Files) != 0 {
		t.Errorf("error %v, result %+v", err, result)
	}
}

// The test flushes one range tombstone.
func TestRun_TableOfOnlyRangeTombstones(t *testing.T) {
	t.Parallel()
	out := files{fs: memfs.New()}
	deletions := rangedel.Build([]rangedel.Deletion{{Lo: []byte("key-0"), Hi: []byte("key-1"), Seq: 1000}})
	result, err := Run(Job{
		Sources: []iter.Source{&entrySource{entries: manyEntries(100, 10)}}, Deletions: deletions,
		Rules: seeAll, TableSize: 1 << 20, NewFile: out.create,
	})
	if err != nil || len(result.Tables) != 1 || result.Tables[0].Entries != 0 {
		t.Fatalf("error %v, result %+v", err, result)
	}
	if got := out.read(t, result.Tables); len(got) != 0 || out.deletions.Numbers() != 1 {
		t.Errorf("%d entries, %d range deletions", len(got), out.deletions.Numbers())
	}
}

// The n-th call to the file system fails, for every n: the job reports it, closes its files and
// names them.
func TestFaults_EveryFailingCallEndsTheJobCleanly(t *testing.T) {
	t.Parallel()
	all := manyEntries(3000, 100)
	for n := int64(1); ; n++ {
		fs := faultfs.New(memfs.New())
		fault := fs.Add(faultfs.Rule{Nth: n})
		open := 0
		out := files{fs: fs}
		result, err := Run(Job{
			Sources: []iter.Source{&entrySource{entries: all}}, Rules: seeAll, TableSize: 100_000,
			NewFile: func() (NewFile, error) {
				f, err := out.create()
				if err == nil {
					open++
					f.File = &countedFile{f.File, &open}
				}
				return f, err
			},
		})
		if fault.Fired() == 0 {
			if err != nil {
				t.Errorf("without a fault: %v", err)
			}
			return
		}
		hint := err == nil && len(result.Tables) > 0 // a failed hint is no error
		if !hint && !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("call %d: error %v", n, err)
		}
		if open != 0 {
			t.Errorf("call %d: %d files left open", n, open)
		}
	}
}

// A countedFile counts down when it is closed.
type countedFile struct {
	vfs.File
	open *int
}

func (f *countedFile) Close() error {
	*f.open--
	return f.File.Close()
}

// What an unreadable part did not write would be lost with the inputs.
func TestRunParts_FailsWithAnyPart(t *testing.T) {
	t.Parallel()
	lost := errors.New("lost")
	middle := []byte("key-000500")
	for failing := range 2 {
		out := files{fs: memfs.New()}
		jobs := []Job{{To: middle}, {From: middle}}
		for i := range jobs {
			source := &entrySource{entries: manyEntries(1000, 10)[500*i : 500*(i+1)]}
			if i == failing {
				source.fail = lost
			}
			jobs[i].Sources, jobs[i].Rules, jobs[i].TableSize, jobs[i].NewFile = []iter.Source{source}, seeAll, 2000, out.create
		}
		result, err := RunParts(jobs)
		if !errors.Is(err, lost) {
			t.Errorf("part %d fails: %v", failing, err)
		}
		if made := int(out.last.Load()); len(result.Files) != made {
			t.Errorf("part %d fails: %d files are to be removed, %d were made", failing, len(result.Files), made)
		}
	}
}

// A function of the user may end the goroutine of a part. The rest is then no whole run.
func TestRunParts_APartWhoseGoroutineEndsIsAnError(t *testing.T) {
	t.Parallel()
	out := files{fs: memfs.New()}
	all := manyEntries(1000, 10)
	jobs := []Job{{To: all[500].Key}, {From: all[500].Key}}
	for i := range jobs {
		jobs[i].Sources = []iter.Source{&entrySource{entries: all[500*i : 500*(i+1)]}}
		jobs[i].Rules, jobs[i].TableSize, jobs[i].NewFile = seeAll, 2000, out.create
	}
	jobs[1].NewFile = func() (NewFile, error) { runtime.Goexit(); return NewFile{}, nil }
	result, err := RunParts(jobs)
	if err == nil {
		t.Errorf("half of the run is gone, and RunParts returns %d tables without an error", len(result.Tables))
	}
}

// The table after the job has an older version of the last user's key.
func TestRun_HeldDeletionStaysBeforeAnOlderVersionOutsideOfTheJob(t *testing.T) {
	t.Parallel()
	space := keyspace.New(1)
	version := func(key string, at uint64) []byte { return stamp.Append(space.Append(nil, nil), []byte(key), at) }
	var all []base.Entry
	for _, key := range []string{"a", "b"} {
		all = append(all,
			base.Entry{Key: version(key, 9), Seq: 5, Meta: base.Meta{Kind: base.KindStampDelete}},
			base.Entry{Key: version(key, 5), Value: []byte("old"), Seq: 4, Meta: base.Meta{Kind: base.KindSet}})
	}
	for _, c := range []struct{ after, want []byte }{{nil, nil}, {version("b", 4), version("b", 9)}, {version("c", 4), nil}} {
		var got []byte
		for _, m := range runOf(t, all, func(j *Job) {
			j.Rules.Bottom = true
			j.Discard = func(uint32) Discard { return Discard{Timed: true, Below: 100, Settled: 100, After: c.after} }
		}) {
			got = m.Smallest
			if m.Entries != 1 {
				t.Errorf("with %q after the job, %d entries stay", c.after, m.Entries)
			}
		}
		if !bytes.Equal(got, c.want) {
			t.Errorf("with %q after the job, %q stays, want %q", c.after, got, c.want)
		}
	}
}

// Versions of a user's key in two tables would keep garbage in merges of one of them.
func TestRun_OutputsEndBetweenUsersKeys(t *testing.T) {
	t.Parallel()
	space := keyspace.New(1)
	versions := func(key string, n int) (all []base.Entry) {
		for i := range n {
			key := stamp.Append(space.Append(nil, nil), []byte(key), uint64(n-i))
			all = append(all, base.Entry{Key: key, Value: make([]byte, 1000), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
		}
		return all
	}
	timed := func(j *Job) { j.Level, j.Discard = last, func(uint32) Discard { return Discard{Timed: true} } }
	var all []base.Entry
	for i := range 50 {
		all = append(all, versions(fmt.Sprintf("key-%02d", i), 30)...)
	}
	tables := runOf(t, all, timed)
	for i, m := range tables[1:] {
		if before := tables[i].Largest; bytes.Equal(stamp.KeyOf(m.Smallest), stamp.KeyOf(before)) {
			t.Errorf("a table ends with %q, the next begins with %q", before, m.Smallest)
		}
	}
	if len(tables) < 10 {
		t.Errorf("%d tables", len(tables))
	}
	if n := len(runOf(t, versions("key", 1500), timed)); n < 5 {
		t.Errorf("all versions of one key are in %d tables", n)
	}
}
