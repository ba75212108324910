package stoat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/txn"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const lockName = "LOCK"

// NewMemFS returns a file system in memory, for databases that live as long
// as the process. Give it as Options.FS.
func NewMemFS() FS { return memfs.NewVolatile() }

// Open opens the database in the directory dir, and makes both if they do not
// exist. A relative dir is that of the moment: the working directory of the
// process may change afterwards. opts may be nil. The caller must Close the
// database.
//
// ErrLocked says that somebody else has it open, ErrCorrupt that a file is
// not what was written, ErrVersion that a later version of stoat wrote it. With
// Options.ReadOnly, fs.ErrNotExist of package io/fs says that there is no
// database.
func Open(dir string, opts *Options) (*DB, error) { return openDriven(dir, opts, nil) }

// openDriven is Open of a database that by drives, or that drives itself if by
// is nil.
func openDriven(dir string, opts *Options, by driver) (*DB, error) {
	d := &DB{opts: opts.withDefaults(), driver: by, readers: txn.NewRegistry[reader](by == nil)}
	if err := d.opts.validate(); err != nil {
		return nil, err
	}
	var err error
	if d.dir, err = placeOf(d.opts.FS, dir); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	d.fs = vfs.Strict(d.opts.FS, d.dir)
	d.memory.init(d.opts.MemtableSize)
	for _, t := range []*turn{&d.compacting, &d.collecting, &d.checkpointing} {
		t.init()
	}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return d, nil
}

// placeOf returns the directory that a user has named, by a name that stays true.
// No name would mean the working directory, where a program that forgot to set
// its path wants no database.
func placeOf(fs vfs.FS, dir string) (string, error) {
	if dir == "" {
		return "", errNoName
	}
	return fs.Abs(dir)
}

// open brings the database to life:
//
//  1. make the directory, take its lock;
//  2. load the manifest, or write the first one;
//  3. delete the files that unfinished work has left;
//  4. replay the log into memtables;
//  5. if the end of the log is not known to be durable, start a new log, which
//     begins with a copy of that end. Otherwise the first commit does that: a
//     database that is only read changes nothing on the disk but the time that
//     the manifest keeps, until it has been left alone for so long that what the
//     last opening left to do is done.
//
// On a full disk 5 is left to the first commit as well, so that the database
// can be read, and written as soon as there is space. A read-only database
// makes nothing in 1 and 2, and stops after 4, of which it leaves out 3.
func (d *DB) open() (err error) {
	d.events.init()
	takeLock, loadManifest := d.lockToWrite, d.loadManifest
	if d.opts.ReadOnly {
		takeLock, loadManifest = d.lockToRead, d.readManifest
	}
	if err := takeLock(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.abandon()
		}
	}()

	state, err := loadManifest()
	if err != nil {
		return err
	}
	d.hashSeed = state.HashSeed
	d.clock.restore(state.ClockHighMs)

	d.nextFile.Store(state.NextFile)
	d.governor.init()
	d.decoded = cache.New(d.opts.MemoryBudget / decodedShare)
	d.tables = tree.New(d.mappedOptions())
	if !d.opts.ReadOnly {
		if err = d.removeOrphans(); err != nil {
			return err
		}
	}
	r := replay{db: d, flushed: state.FlushedSeq, active: d.memory.newTable(0)}
	d.view.Store(newView(r.active, d.tables.View(state.Version, nil), base.FileNum(d.nextFile.Load())))
	d.recovered, err = log.Recover(d.logOptions(), state.Spans, r.apply)
	if err != nil {
		return err
	}
	last := max(r.last, state.FlushedSeq, state.LastSeq)
	d.visible.Store(uint64(last))
	d.commits.init(d, last)
	d.admission.init(d)
	d.room.db = d
	d.background.init()
	d.damaged.init()
	if d.opts.ReadOnly {
		d.startGovernor()
		return nil
	}
	d.room.look()
	if d.recovered.Unproven() {
		err = d.startLog()
		if errors.Is(err, ErrNoSpace) && d.manifest.Err() == nil {
			d.emit(Warning{What: "no space for a log, the database can only be read", Err: err})
			err = log.SyncTail(d.logOptions(), d.recovered)
		}
	}
	if err == nil {
		d.startBackground()
		d.startGovernor()
	}
	return err
}

func (d *DB) logOptions() log.Options {
	least, most := d.opts.segmentSizes()
	o := log.Options{FS: d.fs, Dir: d.dir, Random: rand.Uint64, SegmentSizeMin: least, SegmentSizeMax: most}
	if d.driver != nil {
		o.Go = func(job func()) { job() }
	}
	return o
}

// segmentSizes bound the segments of the log. Some are kept beyond what the
// memtables need, so that a database of small memtables has small ones.
func (o *Options) segmentSizes() (least, most int64) {
	const page = 4 << 10
	least = min(max(o.MemtableSize/4, 32<<10), 256<<10) / page * page
	most = min(max(o.MemtableSize/2, least), 16<<20) / page * page
	return least, most
}

func (d *DB) treeOptions() tree.Options {
	return tree.Options{FS: d.fs, Dir: d.dir, HashSeed: d.hashSeed}
}

// mappedOptions are for the files that users read, through mappings alone.
func (d *DB) mappedOptions() tree.Options {
	o := d.treeOptions()
	o.MappedOnly, o.Used, o.Cache = true, d.governor.wake, d.decoded
	o.Closed = func() error {
		if d.closed.Load() {
			return ErrClosed
		}
		return nil
	}
	return o
}

// startLog starts a new log where recovery found the end of the old one, and
// tells the manifest where the one ended and the other begins. A failure
// leaves things as they were, unless it is the manifest's, which then fails
// for good. The caller holds build, or is Open.
func (d *DB) startLog() error {
	if err := d.manifest.Err(); err != nil {
		return err // the manifest may name the log that was begun before
	}
	l, err := log.Create(d.logOptions(), d.recovered)
	if err != nil {
		return err
	}
	spans := append(slices.Clone(d.recovered.Spans), base.LogSpan{First: l.First()})
	if err := d.record(manifest.Edit{Spans: manifest.Some(spans)}); err != nil {
		if d.manifest.Err() == nil {
			l.Abandon(d.recovered)
		} else {
			_ = l.Close() // the manifest may name it, and its error is the one to tell
		}
		return err
	}
	if err := l.Release(spans[0].First.Number); err != nil {
		d.emit(Warning{What: "a log file that is not needed could not be removed", Err: err})
	}
	d.log.Store(l)
	// What an earlier opening has left to do can be done now.
	d.background.compactor.wake()
	d.wakeCollector()
	return nil
}

// loadManifest loads the manifest, or writes the first one of a new database.
func (d *DB) loadManifest() (state manifest.State, err error) {
	d.manifest, state, err = manifest.Load(d.fs, d.dir, false, rand.Uint64)
	if !errors.Is(err, vfs.ErrNotExist) {
		return state, err
	}
	// Whoever made the directory may not have lived to make it durable.
	if err := d.fs.MkdirAll(d.dir); err != nil {
		return state, err
	}
	state = manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: rand.Uint64()}
	binary.LittleEndian.PutUint64(state.ID[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(state.ID[8:], rand.Uint64())
	if d.manifest, err = manifest.Create(d.fs, d.dir, state, rand.Uint64); err != nil {
		return state, err
	}
	return d.manifest.State(), nil
}

// abandon undoes what open has done so far in memory. Work behind that has begun
// ends first: on a disk that is low, collection does not wait for the end of Open.
func (d *DB) abandon() {
	if d.background.stop != nil {
		d.background.end()
	}
	// The database was never handed out, so what these report concerns
	// nobody: the error that stopped Open is the one to tell.
	if l := d.log.Load(); l != nil {
		_ = l.Close()
	}
	if d.manifest != nil {
		_ = d.manifest.Close()
	}
	_ = d.lock.Close()
	if v := d.view.Load(); v != nil {
		for _, t := range v.tables {
			t.Release()
		}
		d.memory.close()
		_ = d.tables.Close()
		d.decoded.Close()
	}
}

// A replay applies recovered transactions to memtables, those that are not in
// tables already.
type replay struct {
	db      *DB
	active  *memtable.Table
	flushed base.SeqNum // everything up to it is in tables
	last    base.SeqNum // the last one that was replayed
}

// apply takes one transaction from the log. Transactions follow each other. A
// gap is corruption, unless all that it skips is in tables: what was committed
// as Buffered may reach them before a power cut takes it from the log.
func (r *replay) apply(payload []byte) error {
	var head txn.Header
	return txn.Decode(payload, func(h txn.Header) error {
		if next := r.last + 1; h.Seq < next || h.Seq > next && h.Seq > r.flushed+1 {
			return base.Corrupt(-1, "sequence number of a transaction", uint64(h.Seq), uint64(next))
		}
		head, r.last = h, h.Seq
		r.db.clock.restore(h.TimeMs)
		if h.Seq > r.flushed && r.active.Len() > 0 && r.active.Bytes()+int64(len(payload)) > r.db.opts.MemtableSize {
			r.active = r.db.memory.newTable(r.active.Len())
			r.db.add(base.SegmentRef{}, r.active)
		}
		return nil
	}, func(key, value []byte, m base.Meta) error {
		if head.Seq <= r.flushed {
			return nil
		}
		if m.Kind == base.KindPointer {
			if err := r.db.seenApart(value, head.Seq); err != nil {
				return err
			}
		}
		return r.active.Set(key, value, base.Hash(key, r.db.hashSeed), m, head.Seq)
	})
}
