package ingest

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// partBytes is the number of bytes of entries for which an ingest gets room on the
	// disk promised at once.
	partBytes = 4 << 20
	// entryBytes is what an entry takes at most beside its key and value, in bytes.
	entryBytes = 64
	// stopEvery is the number of entries between two looks at the context.
	stopEvery = 256
)

// An Engine is the parts of a database that ingests use. All fields are immutable.
type Engine struct {
	Store    *state.Store
	Commits  *commit.Committer
	Jobs     *jobs.Jobs
	Space    *space.Reserve
	Throttle *throttle.Throttle
	Place    *place.Options
	Group    *work.Group
	Executor *work.Executor
}

// A Target is the keyspace of an ingest. The zero Target is the default keyspace.
type Target struct {
	Space keyspace.Space
	Gate  *commit.Gate // nil for the default keyspace
}

// An Entry is a key of the caller with its value. The caller may reuse both as soon as it
// is asked for the next entry.
type Entry struct {
	Key, Value []byte
	Meta       base.Meta
}

// A Result says what an ingest wrote. Version is 0 if there was no entry.
type Result struct {
	Version        base.SeqNum
	Entries, Bytes int64
}

// Ingest commits entries whose keys ascend strictly. After an error, nothing is left of
// them, unless the manifest has failed.
func (e *Engine) Ingest(ctx context.Context, entries iter.Seq2[Entry, error], to Target) (result Result, err error) {
	ctx, end, err := e.Group.Begin(ctx)
	if err != nil {
		return Result{}, err
	}
	defer end()
	if err := e.Commits.Failed(); err != nil {
		return Result{}, err
	}
	w := e.newWriter(ctx, to)
	defer w.close()
	for entry, err := range entries {
		if err == nil {
			err = w.add(&entry)
		}
		if err != nil {
			return Result{}, err
		}
	}
	if w.entries == 0 {
		return Result{}, nil
	}
	return w.commit()
}

// A writer writes the files of one ingest.
type writer struct {
	*Engine
	ctx    context.Context // of the operation
	to     Target
	out    *compact.Builder
	values *place.Writer
	live   bool // the files are part of the database

	entry     base.Entry
	key, last []byte // stored keys: the present and the one before
	entries   int64
	unasked   int // entries since the last look at the context
	// room is what is left of the promised bytes, promised what may not be on the
	// disk yet.
	room, promised int64
}

func (e *Engine) newWriter(ctx context.Context, to Target) *writer {
	wrap := func(file vfs.File) vfs.File { return beside(e.Executor, file) }
	w := &writer{Engine: e, ctx: ctx, to: to, values: place.NewWriterBeside(e.Place, e.Executor, wrap)}
	job := e.Jobs.IngestJob()
	create := job.NewFile
	job.NewFile = func() (compact.NewFile, error) {
		file, err := create()
		if err == nil {
			file.File = wrap(file.File)
		}
		return file, err
	}
	job.Place = w.values.Place
	w.out = compact.NewBuilder(job, e.Executor)
	return w
}

// add writes the next entry.
func (w *writer) add(entry *Entry) error {
	switch {
	case len(entry.Key) == 0:
		return w.refuse(base.ErrEmptyKey)
	case len(entry.Key) > base.UserKeyMax:
		return w.refuse(fmt.Errorf("%w: %d bytes, of at most %d", base.ErrKeyTooLarge, len(entry.Key), base.UserKeyMax))
	case uint64(len(entry.Value)) > base.MaxValueSize:
		return w.refuse(fmt.Errorf("%w: %d bytes, of at most %d", base.ErrValueTooLarge, len(entry.Value), uint64(base.MaxValueSize)))
	}
	w.key, w.last = w.to.Space.Append(w.last[:0], entry.Key), w.key
	if w.entries > 0 && bytes.Compare(w.last, w.key) >= 0 {
		previous := w.last[w.to.Space.Skip(w.last):]
		return &base.KeyOrderError{Position: w.entries, Key: bytes.Clone(entry.Key), Previous: bytes.Clone(previous)}
	}
	if err := w.admit(int64(len(w.key)) + int64(len(entry.Value)) + entryBytes); err != nil {
		return err
	}
	w.entries++
	w.entry = base.Entry{Key: w.key, Value: entry.Value, Meta: entry.Meta}
	return w.out.Add(&w.entry)
}

// refuse returns the error of an entry that cannot be written.
func (w *writer) refuse(err error) error {
	return fmt.Errorf("key %d of the input: %w", w.entries, err)
}

// admit makes sure that there is room for so many bytes, and that the caller still wants
// the ingest.
func (w *writer) admit(bytes int64) error {
	if w.unasked++; w.unasked >= stopEvery || w.room < bytes {
		w.unasked = 0
		if err := work.Interrupted(w.ctx); err != nil {
			return err
		}
	}
	if w.room >= bytes {
		w.room -= bytes
		return nil
	}
	part := max(bytes, partBytes)
	if err := w.Space.Admit(w.ctx, part); err != nil {
		return cause(w.ctx, err)
	}
	// What is before the last part has left the buffers of the writers.
	w.Space.Taken(w.promised)
	w.promised, w.room = part, part-bytes
	return cause(w.ctx, w.Throttle.AdmitApart(w.ctx, part))
}

// cause returns why the context of the operation is done, or err if it is not.
func cause(ctx context.Context, err error) error {
	if e := work.Interrupted(ctx); e != nil && err != nil {
		return e
	}
	return err
}

// commit finishes the files and makes them a part of the database.
func (w *writer) commit() (Result, error) {
	tables, err := w.out.Finish()
	if err == nil {
		err = w.values.Finish()
	}
	if err == nil {
		err = w.Store.SyncNames()
	}
	if err != nil {
		w.Space.FailedBy(err)
		return Result{}, fmt.Errorf("ingest: %w", err)
	}
	made := tables.Tables
	if mutant.On(mutant.IngestLosesTable) {
		made = made[:len(made)-1]
	}
	seq, err := w.Commits.CommitTables(w.ctx, w.to.Gate, func(seq base.SeqNum) error {
		return w.Jobs.InstallIngest(made, w.values.Made(), seq)
	})
	if err != nil {
		return Result{}, fmt.Errorf("ingest: %w", cause(w.ctx, err))
	}
	w.live = true
	w.Jobs.Ingested()
	return Result{Version: seq, Entries: w.entries, Bytes: tables.BytesWritten + w.values.Bytes()}, nil
}

// close ends the promises, and deletes the files if they are not part of the database.
func (w *writer) close() {
	w.Space.Taken(w.promised)
	if w.live {
		return
	}
	w.Store.DeleteTables(w.out.Abandon().Files)
	w.values.Abandon()
}
