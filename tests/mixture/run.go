package mixture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A run is one life of a database.
type run struct {
	rng    *rand.Rand
	fs     *memfs.FS   // the disk
	faulty *faultfs.FS // the way to the disk, which may fail
	clock  *testkit.Clock
	opts   stoat.Options
	dir    string // where the database lies
	db     *stoat.DB
	// dropping reports whether the dropper of db has more to do.
	dropping func() bool

	spaces  []*space // every keyspace that ever was, also dropped ones
	last    uint64   // the version of the last commit
	durable uint64   // a version that no power cut takes
	values  int      // how many values were drawn, which makes each one different
	keysMax int      // the number of keys that are drawn
	// versionsMax is the greatest NumVersions that a keyspace ever had.
	versionsMax int

	held    []*held // open snapshots, the oldest first
	copies  int     // how many other directories were made
	backups chain
	trouble *trouble // set while calls may fail

	history []string
	work    Work
}

// tail is the merge function of all keyspaces with one.
var tail = model.Tail{Keep: 300}

func newRun(seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 0x313))
	r := &run{rng: rng, fs: memfs.New(), clock: testkit.NewClock(), dir: testkit.Dir, work: Work{}}
	r.opts = stoat.Options{
		Clock:          r.clock,
		MemtableSize:   []int64{64 << 10, 64 << 10, 128 << 10, 1 << 20}[rng.IntN(4)],
		MemoryBudget:   []int64{1 << 20, 0}[rng.IntN(2)],
		Durability:     []stoat.Durability{stoat.Synced, stoat.Buffered}[rng.IntN(2)],
		Compression:    testkit.Compressions[rng.IntN(3)],
		NumVersions:    1 + rng.IntN(3),
		Keys:           testkit.KeysIf(rng.IntN(3) == 0),
		DataKeyAge:     time.Minute,
		MergeFunction:  tail.Name(),
		MergeFunctions: []stoat.MergeFunction{tail},
		Filters:        []stoat.Filter{prefixFilter{}},
	}
	if rng.IntN(2) == 0 {
		r.opts.MergeFunctions[0] = model.CombiningTail{Tail: tail}
	}
	if rng.IntN(2) == 0 {
		r.opts.ValueThreshold = 64 + rng.Int64N(300)
		r.opts.LargeValueThreshold = r.opts.ValueThreshold + rng.Int64N(4000)
	}
	r.keysMax = []int{8, 40, 150}[rng.IntN(3)]
	return r
}

// begin opens the database for the first time.
func (r *run) begin() error {
	if err := r.open(); err != nil {
		return err
	}
	r.add(newSpace("", plain, 0), settings{versions: r.opts.NumVersions})
	s := newSpace(clockName, plain, 0)
	var err error
	if s.ks, err = r.db.Keyspace(clockName, &stoat.KeyspaceOptions{MergeFunction: tail.Name()}); err != nil {
		return err
	}
	if s.id, err = r.idOf(clockName); err != nil {
		return err
	}
	r.add(s, settings{versions: 1})
	return nil
}

// open opens the database on its disk.
func (r *run) open() error {
	r.faulty = faultfs.New(r.fs)
	r.opts.FS = r.faulty
	db, err := inside.Open(r.dir, &r.opts, work.Executor{})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	r.db, r.dropping = db.DB, db.Engine.Spaces.Dropping
	return nil
}

// now is the time by which the database judges expiry, in ms since 1970.
func (r *run) now() uint64 { return r.clock.Seen() }

// key draws a key.
func (r *run) key() string {
	n := r.rng.IntN(r.keysMax)
	switch n % 10 {
	case 7:
		return fmt.Sprintf("%s long head %d", testkit.Sentinel, n)
	case 8:
		return strings.Repeat("\xff", 1+n/10)
	case 9:
		return strings.Repeat("\x00", 1+n/10)
	}
	return fmt.Sprintf("k%03d", n)
}

// add adds a keyspace that was created.
func (r *run) add(s *space, set settings) {
	r.spaces = append(r.spaces, s)
	r.change(s, set)
}

// change notes the settings of a keyspace.
func (r *run) change(s *space, set settings) {
	s.settings = set
	if s.kind == plain {
		s.history.SetVersions(set.versions)
	}
	r.versionsMax = max(r.versionsMax, set.versions)
}

// current returns the keyspaces that are not dropped. The first is the default one.
func (r *run) current() []*space {
	return slices.DeleteFunc(slices.Clone(r.spaces), func(s *space) bool { return s.dropped > 0 })
}

// named returns the keyspace that has a name now, or nil.
func (r *run) named(name string) *space {
	for _, s := range r.current() {
		if s.name == name {
			return s
		}
	}
	return nil
}

// idOf asks the database for the ID of a keyspace.
func (r *run) idOf(name string) (uint32, error) {
	infos, err := r.db.Keyspaces()
	for _, info := range infos {
		if info.Name == name {
			return info.ID, nil
		}
	}
	return 0, fmt.Errorf("no keyspace %q: %w", name, err)
}

// some draws one to three keyspaces for writes. The one of the clock is not among them.
func (r *run) some() (some []*space) {
	all := r.current()
	for range 1 + r.rng.IntN(3) {
		if s := all[r.rng.IntN(len(all))]; s.name != clockName {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		some = all[:1]
	}
	return some
}
