// Package checkpoint copies a database in use into a directory of its own, by hard
// links where the file system has them.
package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// suffix is added to the name of a checkpoint that is being made.
const suffix = ".tmp"

// Options are what checkpoints of one database are made with.
type Options struct {
	Store    *state.Store
	Executor *work.Executor
	Report   event.Sink
	// Settings are those of the keyspaces.
	Settings settings.Of
	// Hold returns a state with everything committed before the call.
	Hold func(ctx context.Context) (Source, error)
	// Keys are those of an encrypted database, nil otherwise.
	Keys *seal.Keys
}

// A Source is what a checkpoint copies: the commits up to a version.
type Source struct {
	// State has the tables and value files. FS opens them as they are, without decryption.
	State manifest.State
	FS    vfs.FS
	// Memtables have the commits up to UpTo that are not in tables. They take no writes.
	Memtables []*memtable.Table
	UpTo      base.SeqNum
	// Sync makes these commits durable in the database. It is nil if they are.
	Sync func(ctx context.Context) error
	// Release lets the files and the memtables go.
	Release func()
}

// A Maker makes checkpoints, one at a time.
type Maker struct {
	o      Options
	making *work.Lock[lock.Checkpointing]
}

// New returns a maker.
func New(o Options) *Maker { return &Maker{o: o, making: work.NewLock[lock.Checkpointing]()} }

// Make makes a checkpoint in dir, an absolute path. ctx is that of an operation.
func (m *Maker) Make(ctx context.Context, dir string) error {
	if !m.making.LockUntil(ctx.Done()) {
		return work.Interrupted(ctx)
	}
	defer m.making.Unlock()
	c := checkpoint{o: &m.o, fs: m.o.Store.FS(), ctx: ctx, dir: dir, temp: dir + suffix}
	started := time.Now()
	if err := c.make(); err != nil {
		return err
	}
	m.o.Report(event.CheckpointDone{Dir: dir, Files: c.files, Bytes: c.bytes, Took: time.Since(started)})
	return nil
}

// A checkpoint is one checkpoint that is being made.
type checkpoint struct {
	o         *Options
	fs        vfs.FS
	ctx       context.Context
	dir, temp string
	source    Source
	files     int
	bytes     int64
	unlinked  bool   // files cannot be linked
	buf       []byte // of a copy
}

func (c *checkpoint) make() error {
	if err := newdir.Unused(c.fs, c.dir); err != nil {
		return err
	}
	var err error
	if c.source, err = c.o.Hold(c.ctx); err != nil {
		return err
	}
	defer c.source.Release()
	if err := work.Interrupted(c.ctx); err != nil {
		return err
	}
	// The lock keeps other checkpoints out, and stays with the directory when that gets its
	// name.
	claim, err := newdir.Lock(c.fs, c.temp)
	if err != nil {
		return err
	}
	defer func() { _ = claim.Close() }() // nothing is written through it
	if err = c.empty(); err != nil {
		return err
	}
	doubt := false
	if err = c.fill(); err == nil {
		doubt, err = newdir.Publish(c.fs, c.temp, c.dir)
	}
	if err != nil {
		if !doubt { // the next checkpoint removes what this cannot
			_ = c.remove()
		}
		return err
	}
	c.makeLock()
	return nil
}

// makeLock creates the lock file of the copy. It comes last, because empty takes a
// directory with a lock file for a database.
func (c *checkpoint) makeLock() {
	err := newdir.AddLock(c.fs, c.dir)
	if err != nil && !errors.Is(err, vfs.ErrExist) { // a process may have opened the copy already
		c.o.Report(event.Warning{What: "a checkpoint has no lock file, its readers keep no writer out", Err: err})
	}
}

// fill makes the copy under its temporary name, durably. It links files before it writes
// tables: once the writer has removed a name, a link is a copy.
func (c *checkpoint) fill() error {
	state := c.source.State
	for t := range state.Version.Tables() {
		if err := c.add(base.TableName(t.Num), t.Size, vfs.CatTable); err != nil {
			return err
		}
	}
	held := withoutGarbage(state.Version)
	if err := c.addValues(held, nil); err != nil {
		return err
	}
	if c.source.Sync != nil {
		if err := c.source.Sync(c.ctx); err != nil {
			return work.Ended(c.ctx, err)
		}
	}
	state, err := c.flush(state)
	if err != nil {
		return err
	}
	state.Version = withoutGarbage(state.Version)
	if err := c.addValues(state.Version, held); err != nil {
		return err
	}
	if err := c.writeManifest(state); err != nil {
		return err
	}
	// The keys come last: a data key may be made while files are copied.
	if c.o.Keys != nil {
		if err := c.o.Keys.CopyTo(c.temp); err != nil {
			return err
		}
	}
	return c.fs.SyncDir(c.temp)
}

// addValues adds the value files of a version that before, which may be nil, lacks. Tables
// that flush writes may be the first to refer to a value file.
func (c *checkpoint) addValues(v, before *manifest.Version) error {
	for _, f := range v.Values {
		if before != nil {
			if _, there := before.Value(f.Num); there {
				continue
			}
		}
		if err := c.add(base.ValueName(f.File), f.Size, vfs.CatValue); err != nil {
			return err
		}
	}
	return nil
}

// withoutGarbage returns v without the value files that its tables do not refer to. They
// are garbage, or belong to commits that the checkpoint does not have.
func withoutGarbage(v *manifest.Version) *manifest.Version {
	live := &manifest.Version{Levels: v.Levels}
	for _, f := range v.Values {
		if f.Live > 0 {
			live.Values = append(live.Values, f)
		}
	}
	return live
}

// writeManifest writes the manifest of a database that was closed when all up
// to s.FlushedSeq had been committed. The other files are there.
func (c *checkpoint) writeManifest(s manifest.State) error {
	binary.LittleEndian.PutUint64(s.ID[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(s.ID[8:], rand.Uint64())
	s.Spans, s.LastSeq = nil, s.FlushedSeq
	s.ClockHighMs = max(s.ClockHighMs, c.o.Store.Now())
	var sealer record.Sealer
	if c.o.Keys != nil {
		sealer = c.o.Keys
	}
	m, err := manifest.CreateFor(c.fs, c.temp, s, rand.Uint64, sealer)
	if err != nil {
		return err
	}
	return m.Close()
}

// add links or copies a file of the database.
func (c *checkpoint) add(name string, size int64, cat vfs.Category) error {
	if err := work.Interrupted(c.ctx); err != nil {
		return err
	}
	c.o.Executor.At(work.PointCopy)
	fs := c.fs
	from, to := fs.Join(c.o.Store.Dir(), name), fs.Join(c.temp, name)
	c.files++
	c.bytes += size
	if !c.unlinked {
		switch err := fs.Link(from, to); {
		case err == nil:
			return nil
		case errors.Is(err, vfs.ErrNoSpace), errors.Is(err, vfs.ErrIO), errors.Is(err, vfs.ErrExist):
			return err
		case errors.Is(err, vfs.ErrNotExist):
			// The writer has removed the name. The source may have the file open.
		default:
			// Another file system, or one without links: if copying does not work
			// either, that error tells why.
			c.unlinked = true
		}
	}
	return c.copy(from, to, size, cat)
}

// copySize is how many bytes are copied at once.
const copySize = 1 << 20

// copy copies a file of size bytes, durably but for its name. It copies a sealed file as
// it is: backups recognise it, and its size is not that in the manifest.
func (c *checkpoint) copy(from, to string, size int64, cat vfs.Category) (err error) {
	source, err := c.source.FS.Open(from, cat)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if c.o.Keys != nil {
		if size, err = source.Size(); err != nil {
			return err
		}
	}
	target, err := c.source.FS.Create(to, cat)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if c.buf == nil {
		c.buf = make([]byte, copySize)
	}
	for at := int64(0); at < size; {
		if err := work.Interrupted(c.ctx); err != nil {
			return err
		}
		b := c.buf[:min(size-at, copySize)]
		if n, err := source.ReadAt(b, at); err == io.EOF && n < len(b) {
			return base.InFile(base.Corrupt(-1, "size of the file", at+int64(n), size), c.fs.Base(from))
		} else if n < len(b) {
			return err
		}
		if _, err := target.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return target.SyncData()
}

// empty removes what is left of a checkpoint that was not finished. It removes
// files that a checkpoint makes, and fails if there are others.
func (c *checkpoint) empty() error {
	fs := c.fs
	names, err := fs.List(c.temp)
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		if !manifest.IsFileOfNew(name) {
			return fmt.Errorf("%s has a file that no checkpoint made: %s", c.temp, name)
		}
	}
	// A rename to this name may not be durable yet. It must be, before what
	// would be a broken copy under the other name.
	if err := fs.SyncDir(fs.Dir(c.temp)); err != nil {
		return err
	}
	for _, name := range names {
		if err := fs.Remove(fs.Join(c.temp, name)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes what was made under the temporary name.
func (c *checkpoint) remove() error {
	if err := c.empty(); err != nil {
		return err
	}
	return c.fs.Remove(c.temp)
}
