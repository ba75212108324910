package stoat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/txn"
	"github.com/stoatdb/stoat/internal/vfs"
)

const lockName = "LOCK"

// NewMemFS returns a file system in memory, for databases that live as long
// as the process. Give it as Options.FS.
func NewMemFS() FS { return vfs.NewMem() }

// Open opens the database in the directory dir, and makes both if they do not
// exist. opts may be nil. The caller must Close the database.
//
// ErrLocked says that somebody else has it open, ErrCorrupt that a file is
// not what was written.
func Open(dir string, opts *Options) (*DB, error) {
	d := &DB{opts: opts.withDefaults(), dir: dir, readers: txn.NewRegistry[Txn]()}
	d.fs = d.opts.FS
	if err := d.opts.validate(); err != nil {
		return nil, err
	}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return d, nil
}

// open brings the database to life:
//
//  1. make the directory, take its lock;
//  2. load the manifest, or write the first one;
//  3. replay the log into memtables;
//  4. start a new log, and tell the manifest where the old one ended and
//     where the new one begins.
//
// Until 4 nothing on the disk has changed, so a crash on the way is as if
// Open had not been called.
func (d *DB) open() (err error) {
	if err := d.fs.MkdirAll(d.dir); err != nil {
		return err
	}
	if d.lock, err = d.fs.Lock(d.fs.Join(d.dir, lockName)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.abandon()
		}
	}()

	state, err := d.loadManifest()
	if err != nil {
		return err
	}
	d.hashSeed = state.HashSeed
	d.clock.restore(state.ClockHighMs)

	r := replay{db: d, lastSeq: state.LastSeq, active: newTable(0)}
	d.view.Store(&view{tables: []*memtable.Table{r.active}})
	logOptions := log.Options{FS: d.fs, Dir: d.dir, Random: rand.Uint64}
	recovered, err := log.Recover(logOptions, state.Spans, r.apply)
	if err != nil {
		return err
	}
	if d.log, err = log.Create(logOptions, recovered); err != nil {
		return err
	}
	spans := append(recovered.Spans, base.LogSpan{First: d.log.First()})
	if err := d.manifest.Append(manifest.Edit{Spans: manifest.Some(spans)}); err != nil {
		return err
	}
	if err := d.log.Release(spans[0].First.Number); err != nil {
		return err
	}
	d.visible.Store(uint64(r.lastSeq))
	d.commits.init(d, r.lastSeq)
	return nil
}

// loadManifest loads the manifest, or writes the first one of a new database.
func (d *DB) loadManifest() (state manifest.State, err error) {
	d.manifest, state, err = manifest.Load(d.fs, d.dir, false, rand.Uint64)
	if !errors.Is(err, vfs.ErrNotExist) {
		return state, err
	}
	state = manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: rand.Uint64()}
	binary.LittleEndian.PutUint64(state.ID[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(state.ID[8:], rand.Uint64())
	d.manifest, err = manifest.Create(d.fs, d.dir, state, rand.Uint64)
	return state, err
}

// abandon undoes what open has done so far in memory.
func (d *DB) abandon() {
	// The database was never handed out, so what these report concerns
	// nobody: the error that stopped Open is the one to tell.
	if d.log != nil {
		_ = d.log.Close()
	}
	if d.manifest != nil {
		_ = d.manifest.Close()
	}
	_ = d.lock.Close()
	if v := d.view.Load(); v != nil {
		for _, t := range v.tables {
			t.Release()
		}
	}
}

// A replay applies recovered transactions to memtables.
type replay struct {
	db      *DB
	active  *memtable.Table
	lastSeq base.SeqNum
}

// apply takes one transaction from the log. Transactions follow each other
// without a gap; anything else is corruption.
func (r *replay) apply(payload []byte) error {
	var head txn.Header
	return txn.Decode(payload, func(h txn.Header) error {
		if h.Seq != r.lastSeq+1 {
			return base.Corrupt(-1, "sequence number of a transaction", uint64(h.Seq), uint64(r.lastSeq+1))
		}
		head, r.lastSeq = h, h.Seq
		r.db.clock.restore(h.TimeMs)
		if r.active.Len() > 0 && r.active.Bytes()+int64(len(payload)) > r.db.opts.MemtableSize {
			r.active = newTable(r.active.Len())
			r.db.install(r.db.view.Load().tables, r.active)
		}
		return nil
	}, func(key, value []byte, m base.Meta) error {
		return r.active.Set(key, value, base.Hash(key, r.db.hashSeed), m, head.Seq)
	})
}
