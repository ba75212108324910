package isolation

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/isolation"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A past is what was played on a disk since the last power cut.
type past struct {
	played []played // in order
	// floor is the newest commit that the last power cut has left.
	floor uint64
}

// A played is a history, with the store that it ran on.
type played struct {
	*storeUnderTest
	history *isolation.History
}

// check compares what a power cut has left with the histories. The newest commit before the cut
// was last. No commit is missing that was acknowledged as durable, or that an earlier cut has left.
func (p *past) check(db *stoat.DB, last uint64) error {
	version, err := testkit.VersionOf(db)
	if err != nil {
		return err
	}
	newest := map[string]played{} // by the name of the keyspace
	for _, one := range p.played {
		p.floor = max(p.floor, one.synced.Load())
		name := one.name()
		if _, known := newest[name]; !known || one.history.Base <= version {
			newest[name] = one
		}
	}
	if version < p.floor || version > last {
		return fmt.Errorf("version %d is left, of %d; version %d was durable", version, last, p.floor)
	}
	for name, one := range newest {
		if name == discarding { // merges drop versions of it at any time
			continue
		}
		if err := one.compare(db, version); err != nil {
			return fmt.Errorf("keyspace %q: %w", name, err)
		}
	}
	*p = past{floor: version}
	return nil
}

// compare compares the keyspace of a history with the state of a version. If the version is from
// before the history, no other history had changed the keyspace meanwhile.
func (o *played) compare(db *stoat.DB, version uint64) (err error) {
	s := &storeUnderTest{db: db, counts: o.counts, timed: o.timed, filtered: o.filtered}
	if o.space != nil {
		if s.space, err = db.Keyspace(o.space.Name(), nil); err != nil {
			return err
		}
	}
	want := o.history.Initial
	if version >= o.history.Base {
		want = isolation.StateAt(o.history, version)
	}
	_, got, err := stateOf(s)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("version %d has %v, want %v", version, got, want)
	}
	return err
}

// cutAndOpen cuts the power and opens the database again.
func cutAndOpen(db *stoat.DB, opts *stoat.Options, rng *rand.Rand) (*stoat.DB, error) {
	opts.FS = testkit.RandomCut(rng)(opts.FS.(*memfs.FS))
	if err := db.Close(); err != nil {
		return nil, err
	}
	return stoat.Open(testkit.Dir, opts)
}
