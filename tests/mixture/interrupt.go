package mixture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A moment is what the model knew before an operation.
type moment struct {
	last, durable uint64
	spaces        map[uint32]space // the keyspaces that were not dropped, by ID
}

func (r *run) moment() moment {
	m := moment{r.last, r.durable, map[uint32]space{}}
	for _, s := range r.current() {
		m.spaces[s.id] = *s
	}
	return m
}

// A diskCopy is a copy of the disk before one call of the file system. Each call has the same
// chance to be that one, however many there are.
type diskCopy struct {
	sync.Mutex
	rng   *rand.Rand
	calls int       // how many calls there were
	at    int       // the number of the call before which the copy was made, from 1 on
	call  string    // that call
	disk  *memfs.FS // nil without a call
	ended bool
}

// take is a hook of a disk.
func (c *diskCopy) take(disk *memfs.FS, call vfs.Op) {
	c.Lock()
	defer c.Unlock()
	if c.ended {
		return // a background job was about to call the hook when it was removed
	}
	if c.calls++; c.rng.IntN(c.calls) == 0 {
		c.disk, c.at, c.call = disk.Clone(), c.calls, call.String()
	}
}

// end makes later calls of take do nothing.
func (c *diskCopy) end() {
	c.Lock()
	defer c.Unlock()
	c.ended = true
}

// interrupt does an operation, and cuts the power of a copy of the disk from the midst of it.
// What the operation changes may be there or not, but all that was durable before must be.
func (r *run) interrupt(do func() error) error {
	before := r.moment()
	c := &diskCopy{rng: rand.New(rand.NewPCG(r.rng.Uint64(), 0))}
	disk := r.fs
	disk.SetHook(func(call vfs.Op) { c.take(disk, call) })
	err := do()
	disk.SetHook(nil)
	c.end()
	if err != nil || c.disk == nil {
		return err
	}
	r.work[interrupted]++
	r.note("  power cut before call %d of %d, %s", c.at, c.calls, c.call)
	if err := r.compareInterrupted(testkit.RandomCut(r.rng)(c.disk), before); err != nil {
		return fmt.Errorf("after a power cut before call %d, %s: %w", c.at, c.call, err)
	}
	return nil
}

// compareInterrupted opens a disk whose power went inside an operation.
func (r *run) compareInterrupted(disk *memfs.FS, before moment) (err error) {
	o := stored(r.opts)
	o.FS = disk
	db, err := stoat.Open(r.dir, &o)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	spaces, err := r.possible(db, before)
	if err != nil {
		return err
	}
	if err := r.compareWith(db, spaces, before.durable); err != nil {
		return err
	}
	return checkSound(db)
}

// possible returns copies of the keyspaces, each as it was before the operation or after it,
// as the database has it. An operation changes a keyspace by one edit, so that other states
// are errors, which the comparison finds. A drop and a discard point do not outlive the commits
// before them.
func (r *run) possible(db *stoat.DB, before moment) (spaces []*space, err error) {
	infos, err := db.Keyspaces()
	if err != nil {
		return nil, err
	}
	version, err := testkit.VersionOf(db)
	if err != nil {
		return nil, err
	}
	there := map[uint32]stoat.KeyspaceInfo{}
	for _, info := range infos {
		there[info.ID] = info
	}
	for _, s := range r.spaces {
		old, existed := before.spaces[s.id]
		info, found := there[s.id]
		created := !existed && s.dropped == 0
		dropped := existed && s.dropped > 0
		if !found && dropped && version < before.last {
			return nil, fmt.Errorf("%v is dropped at %d, without commits up to %d before the drop", s, version, before.last)
		}
		if !found && (created || dropped) {
			continue
		}
		one := *s
		if existed && found {
			if err := one.asBefore(db, info, &old); err != nil {
				return nil, err
			}
			if one.discard != old.discard && version < before.last {
				return nil, fmt.Errorf("the discard point of %v is there at %d, without commits up to %d before it", s, version, before.last)
			}
		}
		spaces = append(spaces, &one)
	}
	return spaces, nil
}

// asBefore takes the settings and the discard point of old, if these are those that the
// database has.
func (s *space) asBefore(db *stoat.DB, info stoat.KeyspaceInfo, old *space) error {
	if settingsOf(info) == old.settings {
		s.settings = old.settings
	}
	if s.kind != timed {
		return nil
	}
	ks, err := db.Keyspace(info.Name, nil)
	if err == nil && ks.DiscardedBelow() == old.discard {
		s.discard = old.discard
	}
	return err
}
