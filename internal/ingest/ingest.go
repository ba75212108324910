package ingest

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
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
	// Unmapped are the options for reading the sorted files of a bulk load.
	Unmapped tree.Options
}

// A Target is the keyspace of an ingest. The zero Target is the default keyspace.
type Target struct {
	Space keyspace.Space
	// Passage is what the commit passes through; nil in the default keyspace. Its timestamp
	// is complete once all entries have come.
	Passage *commit.Passage
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

// A Func commits entries to a keyspace. Engine.Ingest is one, and Engine.BulkLoad makes others.
type Func func(ctx context.Context, entries iter.Seq2[Entry, error], to Target) (Result, error)

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
	return e.ingest(ctx, entries, to)
}

// ingest is Ingest within an operation.
func (e *Engine) ingest(ctx context.Context, entries iter.Seq2[Entry, error], to Target) (Result, error) {
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
	out    *relay
	values *place.Writer // of the relay, until it has finished
	live   bool          // the files are part of the database

	entry     base.Entry
	key, last []byte // stored keys: the present and the one before
	entries   int64
	meter     meter
}

func (e *Engine) newWriter(ctx context.Context, to Target) *writer {
	wrap := func(file vfs.File) vfs.File { return beside(e.Executor, file) }
	w := &writer{Engine: e, ctx: ctx, to: to, meter: meter{engine: e, ctx: ctx}, values: place.NewWriterBeside(e.Place, e.Executor, wrap)}
	job := e.Jobs.IngestJob()
	job.Place = w.values.Place
	w.out = e.relay(job)
	return w
}

// relay returns a relay to a builder of job. Goroutines of their own write the files.
func (e *Engine) relay(job compact.Job) *relay {
	create := job.NewFile
	job.NewFile = func() (compact.NewFile, error) {
		file, err := create()
		if err == nil {
			file.File = beside(e.Executor, file.File)
		}
		return file, err
	}
	return newRelay(e.Executor, compact.NewBuilder(job, e.Executor))
}

// add writes the next entry.
func (w *writer) add(entry *Entry) error {
	if err := entry.check(w.entries); err != nil {
		return err
	}
	w.key, w.last = w.to.Space.Append(w.last[:0], entry.Key), w.key
	if w.entries > 0 && bytes.Compare(w.last, w.key) >= 0 {
		previous := w.last[w.to.Space.Skip(w.last):]
		return &base.KeyOrderError{Position: w.entries, Key: bytes.Clone(entry.Key), Previous: bytes.Clone(previous)}
	}
	if err := w.meter.admit(int64(len(w.key)) + int64(len(entry.Value)) + entryBytes); err != nil {
		return err
	}
	w.entries++
	w.entry = base.Entry{Key: w.key, Value: entry.Value, Meta: entry.Meta}
	return w.out.add(&w.entry)
}

// check returns an error if the entry cannot be written. position is its place in the
// input.
func (e *Entry) check(position int64) (err error) {
	switch {
	case len(e.Key) == 0:
		err = base.ErrEmptyKey
	case len(e.Key) > base.UserKeyMax:
		err = fmt.Errorf("%w: %d bytes, of at most %d", base.ErrKeyTooLarge, len(e.Key), base.UserKeyMax)
	case uint64(len(e.Value)) > base.MaxValueSize:
		err = fmt.Errorf("%w: %d bytes, of at most %d", base.ErrValueTooLarge, len(e.Value), uint64(base.MaxValueSize))
	default:
		return nil
	}
	return fmt.Errorf("key %d of the input: %w", position, err)
}

// commit finishes the files and makes them a part of the database.
func (w *writer) commit() (Result, error) {
	tables, err := w.out.finish()
	if err == nil {
		err = w.values.Finish()
	}
	if err == nil {
		err = w.Store.SyncNames()
	}
	if errors.Is(err, vfs.ErrNamesLost) {
		err = w.Commits.Fail(err)
	}
	if err != nil {
		w.Space.WriteFailed(err)
		return Result{}, fmt.Errorf("ingest: %w", err)
	}
	made := tables.Tables
	if mutant.On(mutant.IngestLosesTable) {
		made = made[:len(made)-1]
	}
	seq, err := w.Commits.CommitTables(w.ctx, w.to.Passage, func(seq base.SeqNum) error {
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
	w.meter.close()
	if w.live {
		return
	}
	w.Store.DeleteTables(w.out.abandon().Files)
	w.values.Abandon()
}
