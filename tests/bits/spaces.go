package bits

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/tests/kill"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A spacesBuilder makes a database with keyspaces, merges and timestamps.
type spacesBuilder struct {
	t    *testing.T
	opts stoat.Options
	db   *stoat.DB
	rng  *rand.Rand
	// states are the states after each commit. The first one is empty.
	states []*kill.State
}

// newSpacesImage returns an image that is encrypted if keys is not nil. Its tables have
// partial entries.
func newSpacesImage(t *testing.T, name string, keys stoat.KeyProvider) *Image {
	t.Helper()
	disk := memfs.New()
	b := &spacesBuilder{t: t, rng: rand.New(rand.NewPCG(1, 0x59ace)), states: []*kill.State{kill.NewState()}}
	b.opts = testkit.Merging(stoat.Options{FS: disk, Clock: testkit.NewClock(), MemtableSize: testkit.SmallMemtable, Keys: keys})
	b.open()
	b.commit(20)
	testkit.Must(t, b.states[20].DiscardSome(b.db))
	testkit.Must(t, b.db.Compact(t.Context(), stoat.CompactOptions{}))
	b.commit(10)
	b.compactPartials()
	testkit.Must(t, b.db.Close())
	img := &Image{name: name, keys: keys, older: []*memfs.FS{disk.Clone()}}
	b.open()
	b.commit(5)
	img.older = append(img.older, disk.Clone())
	b.commit(5)
	testkit.Must(t, b.db.Close())
	img.disk, img.last = disk.Clone(), uint64(len(b.states)-1)
	img.compare = func(db *stoat.DB, tx stoat.Txn) []error {
		return b.states[tx.ReadVersion()].Compare(db, tx)
	}
	img.survey(t)
	return img
}

func (b *spacesBuilder) open() {
	b.t.Helper()
	var err error
	b.db, err = stoat.Open(testkit.Dir, &b.opts)
	testkit.Must(b.t, err)
}

// commit commits n transactions.
func (b *spacesBuilder) commit(n int) {
	b.t.Helper()
	for range n {
		s, err := b.states[len(b.states)-1].CommitRandom(b.db, b.rng)
		testkit.Must(b.t, err)
		b.states = append(b.states, s)
	}
}

// compactPartials compacts without the merge functions. So partial entries stay in the
// tables of the last level.
func (b *spacesBuilder) compactPartials() {
	b.t.Helper()
	with := b.opts
	b.opts.MergeFunctions = nil
	testkit.Must(b.t, b.db.Close())
	b.open()
	testkit.Must(b.t, b.db.Compact(b.t.Context(), stoat.CompactOptions{}))
	partials := 0
	testkit.Must(b.t, b.db.View(func(tx stoat.Txn) error {
		for key := range 3 {
			if _, err := tx.Get(fmt.Appendf(nil, "sum%03d", key)); errors.Is(err, stoat.ErrNoMergeFunction) {
				partials++
			}
		}
		return nil
	}))
	if partials == 0 {
		b.t.Fatal("no table has a partial entry")
	}
	testkit.Must(b.t, b.db.Close())
	b.opts = with
	b.open()
}
