package bits

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An Image is a cleanly closed database, to be damaged.
type Image struct {
	name string
	disk *memfs.FS
	// older are earlier states of the same disk: closed, and in the middle of
	// the last opening.
	older []*memfs.FS
	keys  stoat.KeyProvider
	m     *model.Map // of the default keyspace; nil if there are other keyspaces
	// last is the newest commit. compare returns how each part of what a transaction
	// shows differs from what was written.
	last    uint64
	compare func(db *stoat.DB, tx stoat.Txn) []error
	files   []string
	sizes   []int64
	// unclosed says that the process died, or the power was cut, instead of a close.
	unclosed bool
	// unmarked says that nothing behind the last commit proves that it was durable. A
	// flipped bit in it looks as if the commit had never been finished, and recovery leaves
	// the commit out.
	unmarked bool
	// used is, for each file, the sectors that are not all zeros.
	used [][]int64
}

const sectorSize = 512

// Images builds the databases that are damaged.
func Images(t *testing.T) []*Image {
	t.Helper()
	one := newImage(t, "one opening", func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 12, 60)
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 6, 60)
	})
	several := newImage(t, "several openings and crashes", func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 5, 60)
		testkit.Must(t, modeltest.OpReopen(r, nil))
		modeltest.CommitSome(t, r, 5, 60)
		testkit.Must(t, modeltest.OpPowerCut(r, rand.New(rand.NewPCG(1, 1))))
		testkit.Must(t, modeltest.OpReopen(r, nil))
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 3, 60)
	})
	segments := newImage(t, "several segments", func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 12, 60<<10)
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 4, 60<<10)
	})
	last := newImage(t, "one last commit", func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 3, 60)
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 1, 10)
	})
	tables := newImage(t, "tables", func(r *modeltest.Run) {
		r.Opts.MemtableSize = testkit.SmallMemtable
		modeltest.CommitSome(t, r, 60, 6<<10)
		testkit.Must(t, testkit.WaitForFlushes(r.DB))
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 10, 6<<10)
		testkit.Must(t, testkit.WaitForFlushes(r.DB))
	})
	compressed := newImage(t, "compressed", func(r *modeltest.Run) {
		r.Opts.MemtableSize, r.Opts.Compression = testkit.SmallMemtable, stoat.CompressionSmall
		modeltest.CommitSome(t, r, 60, 6<<10)
	}, func(r *modeltest.Run) {
		modeltest.CommitSome(t, r, 10, 6<<10)
		testkit.Must(t, r.DB.Compact(t.Context(), stoat.CompactOptions{}))
	})
	apart := newApartImage(t)
	if !slices.ContainsFunc(tables.files, func(path string) bool { return strings.HasSuffix(path, ".table") }) {
		t.Fatalf("there is no table among %v", tables.files)
	}
	cut := newUnclosedImage(t, "not closed", func(r *modeltest.Run) *memfs.FS { return r.FS.Crash(memfs.KeepNone, nil) })
	cut.unmarked = true
	spaces := newSpacesImage(t, "keyspaces, merges and timestamps", nil)
	encrypted := newSpacesImage(t, "encrypted", testkit.Keys)
	filtered := newFilteredImage(t)
	idle := newUnclosedImage(t, "synced and not closed", func(r *modeltest.Run) *memfs.FS {
		testkit.Must(t, r.DB.Sync())
		return r.FS.Clone()
	})
	return []*Image{one, several, segments, last, tables, compressed, apart, spaces, encrypted, filtered, cut, idle}
}

// newApartImage makes value files in all ways: of readers, joined, gathered and
// collected.
func newApartImage(t *testing.T) *Image {
	t.Helper()
	var tally *testkit.WorkTally
	rng := rand.New(rand.NewPCG(1, 1))
	img := newImage(t, "values apart", func(r *modeltest.Run) {
		tally = r.Work.Tally
		r.Opts.MemtableSize = testkit.SmallMemtable
		testkit.Must(t, modeltest.OpReopen(r, nil))
		testkit.Must(t, r.Scatter(rng))
		testkit.Must(t, r.Compact(stoat.CompactOptions{})) // gathers
		testkit.Must(t, r.SetReaders(rng))
		testkit.Must(t, r.Compact(stoat.CompactOptions{})) // joins
	}, func(r *modeltest.Run) {
		testkit.Must(t, r.Scatter(rng))
		testkit.Must(t, r.Compact(stoat.CompactOptions{Lower: []byte("k")})) // leaves garbage
		testkit.Must(t, modeltest.OpCollect(r, nil))
	})
	testkit.Must(t, tally.Lacks(testkit.Streams, testkit.Joins, testkit.Gatherings, testkit.Rewrites))
	return img
}

// newImage runs first on a database and closes it, then opens it again and
// runs more twice.
func newImage(t *testing.T, name string, first, more func(r *modeltest.Run)) *Image {
	t.Helper()
	r := modeltest.NewRun(modeltest.Shape{Keys: modeltest.KeySpaces[1], Memtable: testkit.LargeMemtable, Durability: stoat.Synced, Still: true, Spaced: true})
	_, err := r.Open(0, 0)
	testkit.Must(t, err)
	first(r)
	testkit.Must(t, r.Close())
	img := &Image{name: name, older: []*memfs.FS{r.FS.Clone()}}
	_, err = r.Open(r.Model.Last(), r.Model.Last())
	testkit.Must(t, err)
	more(r)
	img.older = append(img.older, r.FS.Clone())
	more(r)
	testkit.Must(t, r.Close())
	img.disk, img.keys = r.FS.Clone(), r.Opts.Keys
	img.expect(r.Model)
	img.survey(t)
	return img
}

// newUnclosedImage runs a database until its end, of which left is what there is.
func newUnclosedImage(t *testing.T, name string, left func(r *modeltest.Run) *memfs.FS) *Image {
	t.Helper()
	r := modeltest.NewRun(modeltest.Shape{Keys: modeltest.KeySpaces[1], Memtable: testkit.LargeMemtable, Durability: stoat.Synced, Still: true, Spaced: true})
	_, err := r.Open(0, 0)
	testkit.Must(t, err)
	modeltest.CommitSome(t, r, 20, 60)
	img := &Image{name: name, unclosed: true, disk: left(r)}
	img.expect(r.Model)
	testkit.Must(t, r.Close())
	img.survey(t)
	return img
}

// expect sets what the default keyspace of the image holds.
func (img *Image) expect(m *model.Map) {
	img.m, img.last = m, m.Last()
	img.compare = func(_ *stoat.DB, tx stoat.Txn) []error {
		return []error{testkit.Compare(tx, m, testkit.ClockStart)}
	}
}

// survey lists the files of the disk.
func (img *Image) survey(t *testing.T) {
	t.Helper()
	names, err := img.disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		path := img.disk.Join(testkit.Dir, name)
		content, err := testkit.ReadFile(img.disk, path)
		testkit.Must(t, err)
		img.files = append(img.files, path)
		img.sizes = append(img.sizes, int64(len(content)))
		img.used = append(img.used, usedSectors(content))
	}
}

func usedSectors(content []byte) []int64 {
	var used []int64
	for at := 0; at < len(content); at += sectorSize {
		for _, b := range content[at:min(at+sectorSize, len(content))] {
			if b != 0 {
				used = append(used, int64(at))
				break
			}
		}
	}
	return used
}
