package spaces

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
)

// Options are what a Registry is made of.
type Options struct {
	Store    *state.Store
	Commits  *commit.Committer
	Group    *work.Group
	HashSeed uint64
	// Free frees the space of a range of stored keys that a commit has deleted.
	Free func(ctx context.Context, lo, hi []byte) error
	// Changed is called after the table of keyspaces has changed.
	Changed func(table []*manifest.Keyspace)
	// Dropped wakes the goroutine that calls Step.
	Dropped func()
	// Discarded wakes the compactor: the discard point of a keyspace has risen, or its settings
	// have changed.
	Discarded func()
	// Report takes the event of changed settings.
	Report event.Sink
}

// A Registry keeps the keyspaces of one open database.
type Registry struct {
	o Options

	defining struct {
		lock.Mutex[lock.Defining]
		// handles has all keyspaces that are not dropped, once one was opened.
		handles map[string]*Handle
	}
	// raises has the discard points of keyspaces, by number.
	raises raises
	// tombstones has the tombstone of each dropped keyspace, by number. What a crash may have
	// taken is not there.
	tombstones sync.Map
}

// New returns the registry of a database.
func New(o Options) *Registry { return &Registry{o: o} }

// A Handle is an open keyspace.
type Handle struct {
	Name  string
	Space keyspace.Space
	// Gate shuts when the keyspace is dropped. Its floor is the discard point.
	Gate commit.Gate
	// timestamps is the setting of the manifest.
	timestamps atomic.Uint32
	// deleted is the version from which on readers find nothing, or 0.
	deleted atomic.Uint64
}

// GoneFor reports whether the keyspace was dropped before a snapshot.
func (h *Handle) GoneFor(snapshot base.SeqNum) bool {
	at := h.deleted.Load()
	return at != 0 && (uint64(snapshot) >= at || mutant.On(mutant.DropSeenEarly))
}

// Timestamps returns manifest.Settings.Timestamps of the keyspace.
func (h *Handle) Timestamps() uint8 { return uint8(h.timestamps.Load()) } //nolint:gosec // see set

// set takes over the settings of the keyspace.
func (h *Handle) set(m *manifest.Settings) {
	h.timestamps.Store(uint32(m.Timestamps))
	h.Gate.SetFloor(m.DiscardBelow)
}

// CheckName returns why no keyspace may have the name, or "".
func CheckName(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > manifest.KeyspaceNameMax:
		return fmt.Sprintf("it has %d bytes, of at most %d", len(name), manifest.KeyspaceNameMax)
	case !utf8.ValidString(name):
		return "it is not UTF-8"
	case strings.ContainsRune(name, 0):
		return "it contains a zero byte"
	}
	return ""
}

// A Change changes the settings of a keyspace, which may be new. It returns an error if they
// contradict each other.
type Change func(s *manifest.Settings, isNew bool) error

// Open returns the keyspace with a name, after change has changed its settings. If the
// keyspace does not exist, Open creates it, or returns ErrNoKeyspace if the database is
// read-only. It returns readOnly if the settings of a read-only database would change.
func (r *Registry) Open(name string, change Change, readOnly error) (*Handle, error) {
	_, end, err := r.o.Group.Begin(context.Background())
	if err != nil {
		return nil, err
	}
	defer end()
	r.defining.Lock()
	defer r.defining.Unlock()
	h := r.handlesLocked()[name]
	if h == nil && readOnly != nil {
		return nil, fmt.Errorf("%w: %q", base.ErrNoKeyspace, name)
	}
	s := r.o.Store.State()
	next := max(s.NextKeyspace, 1)
	k := manifest.Keyspace{Number: next, Name: name}
	if h != nil {
		old, _ := s.Keyspace(h.Space.Number())
		k = *old
	}
	before := k.Settings
	if err := change(&k.Settings, h == nil); err != nil {
		return nil, err
	}
	if h != nil && k.Settings == before {
		return h, nil
	}
	if readOnly != nil {
		return nil, readOnly
	}
	edit := manifest.Edit{PutKeyspaces: []*manifest.Keyspace{&k}}
	if h == nil {
		edit.NextKeyspace = manifest.Some(next + 1)
	} else if err := r.o.Commits.SyncLog(); err != nil {
		// A power cut must not take a commit that came before, such as a copy of versions that
		// the new settings let go.
		return nil, fmt.Errorf("keyspace %q: %w", name, err)
	}
	if err := r.record(edit); err != nil {
		return nil, fmt.Errorf("keyspace %q: %w", name, err)
	}
	if h == nil {
		return r.addLocked(&k), nil
	}
	h.set(&k.Settings)
	r.o.Discarded() // the keyspace may keep fewer versions
	was, is := settings.Resolve(&before), settings.Resolve(&k.Settings)
	if old, now := was.Given(), is.Given(); old != now {
		r.o.Report(settings.Changed{Keyspace: name, Old: old, New: now})
	}
	return h, nil
}

// Followed takes over the table of keyspaces that another process has written. Readers do
// not see it yet: Followed only raises the discard points, so that no reader reads below
// them. The caller calls shown when readers see the table. Readers of versions from on then
// find nothing in a keyspace that was dropped. Followed takes defining, and shown gives it
// back: handles never differ from the state that readers see.
func (r *Registry) Followed(table []*manifest.Keyspace) (shown func(from base.SeqNum)) {
	r.defining.Lock()
	handles := r.handlesLocked()
	for _, k := range table {
		h := handles[k.Name]
		if h != nil && h.Space.Number() == k.Number && k.Settings.DiscardBelow > h.Gate.Floor() {
			h.Gate.SetFloor(k.Settings.DiscardBelow)
		}
	}
	return func(from base.SeqNum) {
		defer r.defining.Unlock()
		r.shownLocked(table, from)
	}
}

// shownLocked takes over a table of Followed that readers see.
func (r *Registry) shownLocked(table []*manifest.Keyspace, from base.SeqNum) {
	live := map[string]bool{}
	for _, k := range table {
		if k.Number == 0 || k.Dropping {
			continue
		}
		live[k.Name] = true
		if h := r.defining.handles[k.Name]; h != nil && h.Space.Number() == k.Number {
			h.set(&k.Settings)
			continue
		} else if h != nil {
			h.deleted.Store(uint64(from))
		}
		r.addLocked(k)
	}
	for name, h := range r.defining.handles {
		if !live[name] {
			h.deleted.Store(uint64(from))
			delete(r.defining.handles, name)
		}
	}
}

// All returns the handles of all keyspaces except the default one, in the order of their
// creation. It creates none. It calls begin, which takes a snapshot, while no keyspace is
// created or dropped. So it returns those that the snapshot sees, whatever is dropped later.
func (r *Registry) All(begin func() error) ([]*Handle, error) {
	r.defining.Lock()
	defer r.defining.Unlock()
	handles := r.handlesLocked()
	if err := begin(); err != nil {
		return nil, err
	}
	all := slices.Collect(maps.Values(handles))
	slices.SortFunc(all, func(a, b *Handle) int { return cmp.Compare(a.Space.Number(), b.Space.Number()) })
	return all, nil
}

// Still calls fn while no keyspace is created, changed or dropped.
func (r *Registry) Still(fn func() error) error {
	r.defining.Lock()
	defer r.defining.Unlock()
	return fn()
}

// handlesLocked returns the handles of all keyspaces. The caller holds defining.
func (r *Registry) handlesLocked() map[string]*Handle {
	if r.defining.handles == nil {
		table := r.o.Store.State().Keyspaces
		r.defining.handles = make(map[string]*Handle, len(table))
		for _, k := range table {
			if k.Number != 0 && !k.Dropping {
				r.addLocked(k)
			}
		}
	}
	return r.defining.handles
}

// addLocked adds the handle of k. The caller holds defining.
func (r *Registry) addLocked(k *manifest.Keyspace) *Handle {
	h := &Handle{Name: k.Name, Space: keyspace.New(k.Number)}
	h.set(&k.Settings)
	r.defining.handles[k.Name] = h
	return h
}

// record appends an edit to the manifest. The caller holds defining, so that Changed
// sees the tables in order.
func (r *Registry) record(edit manifest.Edit) error {
	err := r.o.Store.Record(edit)
	if err != nil {
		if r.o.Store.EditErr() != nil {
			r.o.Commits.JobFailed(err)
			err = base.Failed(err)
		}
		return err
	}
	r.o.Changed(r.o.Store.State().Keyspaces)
	return nil
}
