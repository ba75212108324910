package manifest

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// bigTree returns a state of n tables with keys of 22 bytes, nine tenths of
// them in the last level. Each has values in three of n/10 value files.
func bigTree(tb testing.TB, n int) State {
	tb.Helper()
	e := Edit{NextFile: Some(uint64(10 * n))}
	files := n / 10
	for i := range files {
		num := base.FileNum(1 + i)
		e.AddValues = append(e.AddValues, &ValueFile{Num: num, File: num, Bytes: 1 << 26})
	}
	for i := range n {
		t := tableAt(base.FileNum(files+1+i), Levels-1, bigKey(10*i), bigKey(10*i+5))
		if i%10 == 0 {
			t.Level--
		}
		first := base.FileNum(1 + i*(files-3)/n)
		t.Values = ValueRefsOf(ValueRef{first, 1000}, ValueRef{first + 1, 1000}, ValueRef{first + 2, 1000})
		e.AddTables = append(e.AddTables, t)
	}
	s, err := firstState().Apply(e)
	must(tb, err)
	return s
}

func bigKey(i int) string { return fmt.Sprintf("user:%017d", i) }

// replaceOne returns the edit of a compaction that replaces five tables of the
// last level by five others with the same bounds.
func replaceOne(s State, i int) Edit {
	tables := s.Version.Levels[Levels-1]
	at := i * 7919 % (len(tables) - 5)
	e := Edit{NextFile: Some(s.NextFile + 5)}
	for j, t := range tables[at : at+5] {
		next := *t
		next.Num = base.FileNum(s.NextFile + uint64(j))
		e.DropTables = append(e.DropTables, Place{Level: t.Level, Num: t.Num})
		e.AddTables = append(e.AddTables, &next)
	}
	return e
}

const bigTables = 10_000

func BenchmarkApplyToTenThousandTables(b *testing.B) {
	s := bigTree(b, bigTables)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		next, err := s.Apply(replaceOne(s, i))
		must(b, err)
		s = next
	}
}

// The disk is memory, so this measures the work of the manifest, takeovers
// included, without the sync.
func BenchmarkAppendToTenThousandTables(b *testing.B) {
	fs := memfs.NewVolatile()
	must(b, fs.MkdirAll(testDir))
	s, err := Create(fs, testDir, bigTree(b, bigTables), testRandom(1), nil)
	must(b, err)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		must(b, s.Append(replaceOne(s.State(), i)))
	}
	must(b, s.Close())
}

func BenchmarkLoadTenThousandTables(b *testing.B) {
	for _, edits := range []int{1, 1000} {
		b.Run(fmt.Sprintf("edits=%d", edits), func(b *testing.B) {
			fs := memfs.NewVolatile()
			must(b, fs.MkdirAll(testDir))
			s, err := Create(fs, testDir, bigTree(b, bigTables), testRandom(1), nil)
			must(b, err)
			for i := range edits {
				must(b, s.Append(replaceOne(s.State(), i)))
			}
			if s.mu.file.number != 1 {
				b.Fatal("the edits are not in the file of the snapshot")
			}
			must(b, s.Close())
			b.ReportAllocs()
			for b.Loop() {
				s, _, err := Load(fs, testDir, false, testRandom(2), nil)
				must(b, err)
				must(b, s.Close())
			}
		})
	}
}

// Each edit adds a value file. Behind a snapshot of so many files, there is not room for
// many more edits.
func BenchmarkLoadFiftyThousandValueFiles(b *testing.B) {
	const files = 50_000
	fileAt := func(i int) *ValueFile {
		return &ValueFile{Num: base.FileNum(1 + i), File: base.FileNum(1 + i), Bytes: 1 << 20}
	}
	for _, edits := range []int{1, 45_000} {
		b.Run(fmt.Sprintf("edits=%d", edits), func(b *testing.B) {
			e := Edit{NextFile: Some(uint64(1 + files + edits))}
			for i := range files {
				e.AddValues = append(e.AddValues, fileAt(i))
			}
			state, err := firstState().Apply(e)
			must(b, err)
			fs := memfs.NewVolatile()
			must(b, fs.MkdirAll(testDir))
			s, err := Create(fs, testDir, state, testRandom(1), nil)
			must(b, err)
			s.mu.Lock()
			for i := range edits {
				payload := Edit{AddValues: []*ValueFile{fileAt(files + i)}}.AppendTo(nil)
				if !s.mu.file.fits(len(payload)) {
					b.Fatalf("%d edits are not in the file of the snapshot", edits-i)
				}
				must(b, s.appendLocked(payload, state)) // Append would make a version for each
			}
			s.mu.Unlock()
			must(b, s.Close())
			b.ReportAllocs()
			for b.Loop() {
				s, state, err := Load(fs, testDir, false, testRandom(2), nil)
				must(b, err)
				if n := len(state.Version.Values); n != files+edits {
					b.Fatalf("%d value files, want %d", n, files+edits)
				}
				must(b, s.Close())
			}
		})
	}
}

func BenchmarkOverlapping(b *testing.B) {
	v := bigTree(b, bigTables).Version
	lo, hi := []byte(bigKey(50_000)), []byte(bigKey(50_100))
	b.ReportAllocs()
	for b.Loop() {
		v.Overlapping(Levels-1, lo, hi, true)
	}
}

// One edit made all keyspaces, or each keyspace had an edit of its own.
func BenchmarkLoadThousandKeyspaces(b *testing.B) {
	for _, each := range []int{1000, 1} {
		b.Run(fmt.Sprintf("each=%d", each), func(b *testing.B) {
			fs := memfs.NewVolatile()
			must(b, fs.MkdirAll(testDir))
			s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
			must(b, err)
			all := manyKeyspaces(1000).PutKeyspaces
			for i := 0; i < len(all); i += each {
				must(b, s.Append(Edit{NextKeyspace: Some(uint32(i + each + 1)), PutKeyspaces: all[i : i+each]}))
			}
			must(b, s.Close())
			b.ReportAllocs()
			for b.Loop() {
				s, _, err := Load(fs, testDir, false, testRandom(2), nil)
				must(b, err)
				must(b, s.Close())
			}
		})
	}
}

func BenchmarkChangeOneOfThousandKeyspaces(b *testing.B) {
	s, err := firstState().Apply(manyKeyspaces(1000))
	must(b, err)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		changed := *s.Keyspaces[1+i%1000]
		changed.Settings.NumVersions++
		s, err = s.Apply(Edit{PutKeyspaces: []*Keyspace{&changed}})
		must(b, err)
	}
}
