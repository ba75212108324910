package stoat

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/settings"
)

// An Event reports something that the database did in the background. Its type is
// one of the structs below:
//
//   - FlushDone, CompactionDone, CollectionDone, CheckpointDone
//   - FileCreated, FileDeleted
//   - StallBegin, StallEnd, SpaceLow, SpaceRegained
//   - SettingsChanged, Warning, BackgroundError
//
// Later versions may add types, so a type switch should ignore unknown ones.
type Event interface {
	// Record returns the event as a log record.
	Record() (level slog.Level, message string, attrs []slog.Attr)
}

// FlushDone says that memtables became tables.
type FlushDone struct {
	// Memtables is how many memtables were flushed. Tables and Values count the
	// tables and value files that the flush made. Bytes is the size of these files.
	// Took is the duration of the flush.
	Memtables, Tables, Values int
	Bytes                     int64
	Took                      time.Duration
}

// CompactionDone says that a compaction merged, moved or dropped tables.
type CompactionDone struct {
	// Plan describes the compaction and its reason in words.
	Plan string
	// Level is the level of the outputs. InputBytes is the size of the tables that
	// took part. OutputBytes is what the compaction wrote, 0 for a move.
	// Took is the duration of the compaction.
	Level                   int
	InputBytes, OutputBytes int64
	Took                    time.Duration
}

// CollectionDone says that a collection freed the garbage of value files.
type CollectionDone struct {
	// Files is how many value files were collected, and InputBytes their size.
	// OutputBytes is the size of the files that replace them. A file without live
	// values has no replacement. Took is the duration of the collection.
	Files                   int
	InputBytes, OutputBytes int64
	Took                    time.Duration
}

type (
	// FileCreated says that the table or value file Name became part of the database.
	// Size is its length in bytes.
	FileCreated struct {
		Name string
		Size int64
	}
	// FileDeleted says that the database deleted the obsolete table or value file
	// Name.
	FileDeleted struct{ Name string }
)

type (
	// StallBegin says that commits have begun to wait because the memory for
	// memtables is used up. The short delays that keep writes at the speed of
	// compaction are no stalls; Stats.Waits counts them.
	StallBegin struct{}
	// StallEnd says that commits no longer wait. Took is the length of the stall.
	StallEnd struct{ Took time.Duration }
)

type (
	// SpaceLow says that the disk has only Free bytes left, less than the Reserve
	// that jobs need to free space. From now on, commits that add anything return
	// ErrNoSpace.
	SpaceLow struct{ Free, Reserve int64 }
	// SpaceRegained says that the disk has enough free space again: Free bytes.
	SpaceRegained struct{ Free int64 }
)

// CheckpointDone says that DB.Checkpoint made a copy.
type CheckpointDone struct {
	// Dir is the directory of the copy. Files counts the files of the copy, and
	// Bytes is their total size. Took is the duration of the checkpoint.
	Dir   string
	Files int
	Bytes int64
	Took  time.Duration
}

// Warning says that an action failed that the database can do without. Such an action is
// the deletion of an unreferenced file, or the call of a compaction filter. What names the
// action, and Err is its error.
type Warning struct {
	What string
	Err  error
}

// BackgroundError says that a background job failed. The database retries the job,
// unless the manifest failed, which ends all commits. Err is the error of the job.
type BackgroundError struct{ Err error }

// Record returns the event as a log record.
func (e FlushDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: flushed", []slog.Attr{slog.Int("memtables", e.Memtables), slog.Int("tables", e.Tables),
		slog.Int("values", e.Values), slog.Int64("bytes", e.Bytes), slog.Duration("took", e.Took)}
}

// Record returns the event as a log record.
func (e CompactionDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: compacted", []slog.Attr{slog.String("plan", e.Plan),
		slog.Int64("in", e.InputBytes), slog.Int64("out", e.OutputBytes), slog.Duration("took", e.Took)}
}

// Record returns the event as a log record.
func (e CollectionDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: values collected", []slog.Attr{slog.Int("files", e.Files),
		slog.Int64("in", e.InputBytes), slog.Int64("out", e.OutputBytes), slog.Duration("took", e.Took)}
}

// Record returns the event as a log record.
func (e FileCreated) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: file created", []slog.Attr{slog.String("file", e.Name), slog.Int64("bytes", e.Size)}
}

// Record returns the event as a log record.
func (e FileDeleted) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: file deleted", []slog.Attr{slog.String("file", e.Name)}
}

// Record returns the event as a log record.
func (StallBegin) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "stoat: commits wait for a flush", nil
}

// Record returns the event as a log record.
func (e StallEnd) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "stoat: commits go on", []slog.Attr{slog.Duration("waited", e.Took)}
}

// Record returns the event as a log record.
func (e SpaceLow) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "stoat: the disk is almost full, only deletions are possible",
		[]slog.Attr{slog.Int64("free", e.Free), slog.Int64("reserve", e.Reserve)}
}

// Record returns the event as a log record.
func (e SpaceRegained) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "stoat: the disk has enough free space again", []slog.Attr{slog.Int64("free", e.Free)}
}

// Record returns the event as a log record.
func (e CheckpointDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "stoat: checkpoint made", []slog.Attr{slog.String("dir", e.Dir),
		slog.Int("files", e.Files), slog.Int64("bytes", e.Bytes), slog.Duration("took", e.Took)}
}

// Record returns the event as a log record.
func (e Warning) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "stoat: " + e.What, []slog.Attr{slog.Any("error", e.Err)}
}

// Record returns the event as a log record.
func (e BackgroundError) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "stoat: background work failed", []slog.Attr{slog.Any("error", e.Err)}
}

// A reporter delivers events to Options.Events and Options.Logger.
type reporter struct {
	queue  event.Queue[Event]
	events func(Event) // may be nil
	logger *slog.Logger
}

// emit queues an event of the engine if the caller wants events.
func (r *reporter) emit(e any) {
	if r.events != nil || r.logger.Handler() != slog.DiscardHandler {
		r.queue.Emit(publicEvent(e), r.tell)
	}
}

// tell delivers an event.
func (r *reporter) tell(e Event) {
	level, message, attrs := e.Record()
	r.logger.LogAttrs(context.Background(), level, message, attrs...)
	if r.events != nil {
		r.events(e)
	}
}

// publicEvent returns the public form of an event of the engine.
func publicEvent(e any) Event {
	switch e := e.(type) {
	case settings.Changed:
		return SettingsChanged{Keyspace: e.Keyspace, Old: publicSettings(e.Old), New: publicSettings(e.New)}
	case event.FlushDone:
		return FlushDone(e)
	case event.CompactionDone:
		return CompactionDone(e)
	case event.CollectionDone:
		return CollectionDone(e)
	case event.FileCreated:
		return FileCreated(e)
	case event.FileDeleted:
		return FileDeleted(e)
	case event.StallBegin:
		return StallBegin(e)
	case event.StallEnd:
		return StallEnd(e)
	case event.SpaceLow:
		return SpaceLow(e)
	case event.SpaceRegained:
		return SpaceRegained(e)
	case event.CheckpointDone:
		return CheckpointDone(e)
	case event.Warning:
		return Warning(e)
	case event.BackgroundError:
		return BackgroundError(e)
	}
	panic(fmt.Sprintf("stoat: event %T has no public form", e))
}
