package stoat

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/lock"
)

// An Event is something that happened in a database beside what its callers
// asked for. It is one of FlushDone, CompactionDone, CollectionDone,
// FileCreated, FileDeleted, StallBegin, StallEnd, SpaceLow, SpaceRegained,
// CheckpointDone, Warning and BackgroundError; later versions may have more, so that a switch over the
// types should pass over what it does not know.
type Event interface {
	// Record returns the event as it is logged.
	Record() (level slog.Level, message string, attrs []slog.Attr)
}

// FlushDone says that memtables became tables.
type FlushDone struct {
	// Memtables is how many there were, Tables and Values how many files of
	// these kinds were made, and Bytes what was written.
	Memtables, Tables, Values int
	Bytes                     int64
	Took                      time.Duration
}

// CompactionDone says that tables were merged, moved or dropped.
type CompactionDone struct {
	// Plan tells in words what was done and why.
	Plan string
	// Level is where the outputs are. InputBytes is the size of the tables
	// that took part, OutputBytes what was written; of a move that is nothing.
	Level                   int
	InputBytes, OutputBytes int64
	Took                    time.Duration
}

// CollectionDone says that the garbage of value files was given back.
type CollectionDone struct {
	// Files is how many there were, InputBytes their size, and OutputBytes that
	// of those in their places; of one with nothing live there is none.
	Files                   int
	InputBytes, OutputBytes int64
	Took                    time.Duration
}

// FileCreated says that a table or a value file became a part of the
// database, and FileDeleted that one that was none any more was deleted.
type (
	FileCreated struct {
		Name string
		Size int64
	}
	FileDeleted struct{ Name string }
)

// StallBegin says that commits have begun to wait because memory for them is
// used up, and StallEnd for how long they did. The short delays by which
// writing is kept to the speed of compaction are no stalls; Stats has them.
type (
	StallBegin struct{}
	StallEnd   struct{ Took time.Duration }
)

// SpaceLow says that so little of the disk is free that transactions which add
// anything are refused with ErrNoSpace: Free bytes, less than the Reserve that it
// takes to give space back. SpaceRegained says that it is enough again.
type (
	SpaceLow      struct{ Free, Reserve int64 }
	SpaceRegained struct{ Free int64 }
)

// CheckpointDone says that DB.Checkpoint made a copy.
type CheckpointDone struct {
	Dir   string
	Files int
	Bytes int64
	Took  time.Duration
}

// Warning says that something could not be done which the database can do
// without, such as to delete a file that nothing refers to.
type Warning struct {
	What string
	Err  error
}

// BackgroundError says that work which nobody waits for has failed. It is
// tried again, unless the manifest failed, which ends all commits.
type BackgroundError struct{ Err error }

// Record returns the event as it is logged.
func (e FlushDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: flushed", []slog.Attr{slog.Int("memtables", e.Memtables), slog.Int("tables", e.Tables),
		slog.Int("values", e.Values), slog.Int64("bytes", e.Bytes), slog.Duration("took", e.Took)}
}

// Record returns the event as it is logged.
func (e CompactionDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: compacted", []slog.Attr{slog.String("plan", e.Plan),
		slog.Int64("in", e.InputBytes), slog.Int64("out", e.OutputBytes), slog.Duration("took", e.Took)}
}

// Record returns the event as it is logged.
func (e CollectionDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: values collected", []slog.Attr{slog.Int("files", e.Files),
		slog.Int64("in", e.InputBytes), slog.Int64("out", e.OutputBytes), slog.Duration("took", e.Took)}
}

// Record returns the event as it is logged.
func (e FileCreated) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: file created", []slog.Attr{slog.String("file", e.Name), slog.Int64("bytes", e.Size)}
}

// Record returns the event as it is logged.
func (e FileDeleted) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "stoat: file deleted", []slog.Attr{slog.String("file", e.Name)}
}

// Record returns the event as it is logged.
func (StallBegin) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "stoat: commits wait for a flush", nil
}

// Record returns the event as it is logged.
func (e StallEnd) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "stoat: commits go on", []slog.Attr{slog.Duration("waited", e.Took)}
}

// Record returns the event as it is logged.
func (e SpaceLow) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "stoat: the disk is almost full, only deleting is possible",
		[]slog.Attr{slog.Int64("free", e.Free), slog.Int64("reserve", e.Reserve)}
}

// Record returns the event as it is logged.
func (e SpaceRegained) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "stoat: the disk has room again", []slog.Attr{slog.Int64("free", e.Free)}
}

// Record returns the event as it is logged.
func (e CheckpointDone) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "stoat: checkpoint made", []slog.Attr{slog.String("dir", e.Dir),
		slog.Int("files", e.Files), slog.Int64("bytes", e.Bytes), slog.Duration("took", e.Took)}
}

// Record returns the event as it is logged.
func (e Warning) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "stoat: " + e.What, []slog.Attr{slog.Any("error", e.Err)}
}

// Record returns the event as it is logged.
func (e BackgroundError) Record() (slog.Level, string, []slog.Attr) {
	return slog.LevelError, "stoat: background work failed", []slog.Attr{slog.Any("error", e.Err)}
}

// eventsMax is how many events may wait for a callback. It is never reached
// but by one that hangs; what comes then is counted and forgotten.
const eventsMax = 4096

// An eventQueue hands events to who wants them, one at a time and in order, on
// a goroutine of its own: whoever emits one may hold locks, and is not held up.
type eventQueue struct {
	mu         lock.Mutex[lock.Events]
	waiting    []Event
	delivering bool
	ended      bool // Close has returned, or is about to
	dropped    uint64
	idle       sync.Cond // delivering has become false
}

func (q *eventQueue) init() { q.idle.L = &q.mu }

// emit hands an event of the engine to Options.Events and Options.Logger, if the
// caller wants events. It only queues the event: its callers may hold locks. After
// Close there are no more events, though a transaction that ends may come here.
func (d *DB) emit(e any) {
	if d.opts.Events == nil && d.opts.Logger.Handler() == slog.DiscardHandler {
		return
	}
	q := &d.events
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	if len(q.waiting) >= eventsMax {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, publicEvent(e))
	if !q.delivering {
		q.delivering = true
		go q.deliver(d.opts.Logger, d.opts.Events)
	}
}

// publicEvent returns the public form of an event of the engine.
func publicEvent(e any) Event {
	switch e := e.(type) {
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

// deliver delivers events until there is none. One goroutine does at a time;
// it ends by itself, and Close waits for it.
func (q *eventQueue) deliver(logger *slog.Logger, callback func(Event)) {
	for {
		q.mu.Lock()
		batch := q.waiting
		q.waiting = nil
		if len(batch) == 0 {
			q.delivering = false
			q.idle.Broadcast()
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for _, e := range batch {
			level, message, attrs := e.Record()
			logger.LogAttrs(context.Background(), level, message, attrs...)
			if callback != nil {
				callback(e)
			}
		}
	}
}

// lost returns how many events came to nobody.
func (q *eventQueue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// end waits until all events have been delivered, and lets none come after them.
func (q *eventQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.delivering {
		q.idle.Wait()
	}
	q.ended = true
}
