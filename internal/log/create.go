package log

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// firstSizeMax bounds the free file that a span starts with, in units of
// SegmentSizeMin: a database that was busy once does not stay large.
const firstSizeMax = 16

// Create starts a new span, with a new segment that holds what r says is to be
// carried. When it returns, the segment is durable. The caller then records in
// the manifest, in one edit, r.Spans and behind them an open span that starts
// with First, and may release the segments before the first of these.
//
// A failure, as with a full disk, leaves the log as recovery found it; Create
// may be called again with the same r.
func Create(o Options, r Recovered) (*Writer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o}
	w.mu.changed = sync.NewCond(&w.mu)
	w.mu.nextFile = r.nextFile
	w.mu.live = append([]segmentFile(nil), r.live...)
	w.mu.free = append([]segmentFile(nil), r.free...)

	seg, err := w.firstSegment(r)
	if err != nil {
		return nil, err
	}
	w.first = seg.ref
	w.b = record.NewBuilder(seg.ref.Salt, o.FrameSizeMax)
	w.b.SetEarly(true)
	w.enter(seg)
	for _, f := range r.junk {
		// What cannot be removed is junk at the next recovery, too.
		_ = o.FS.Remove(o.path(f.file))
	}
	if err := w.carry(r.carry); err != nil {
		w.Abandon(r)
		return nil, err
	}
	return w, nil
}

// Abandon undoes Create(o, r): it gives up a span that the manifest does not
// know, and of which only the first segment was begun. The log is as recovery
// found it, and Create may be called again with r. No other call may follow.
func (w *Writer) Abandon(r Recovered) {
	w.mu.seg.close()
	// Nothing refers to the file. One that was free before is so again, for the
	// next Create; a new one is removed, or else free as well.
	if !slices.ContainsFunc(r.free, func(f segmentFile) bool { return f.file == w.first.File }) {
		_ = w.o.FS.Remove(w.o.path(w.first.File))
	}
}

// firstSegment makes the first segment of the span, with room for all that is
// to be carried: only the first segment of a span may hold early records.
func (w *Writer) firstSegment(r Recovered) (*segment, error) {
	carried := int64(0)
	if !r.carry.empty() {
		// The records take what they took, but for the frames of a record
		// that was split at another size.
		n := r.carry.until - r.carry.from.offset
		carried = n + n/int64(w.o.FrameSizeMax)*2*record.FrameHeaderSize
	}
	size := max(w.o.SegmentSizeMin, segmentSize(carried))
	free, recycle := w.takeFreeLocked(size, max(size, firstSizeMax*w.o.SegmentSizeMin))
	if recycle {
		seg, err := w.o.recycleSegment(w.newRef(r.next, free.file), free, false)
		if err == nil {
			return seg, nil
		}
		// The file may be beyond use: leave it to the next recovery.
	}
	seg, err := w.create(r.next, size, false)
	if errors.Is(err, vfs.ErrNoSpace) {
		seg, err = w.prepareFull(r.next, size, plan{need: carried}, false)
	}
	if err != nil {
		return nil, fmt.Errorf("log: no first segment: %w", err)
	}
	return seg, nil
}

// carry writes the records of t again, at the front of the new span.
func (w *Writer) carry(t tail) error {
	if t.empty() || mutant.On(mutant.NoCarry) {
		return nil
	}
	if err := w.copyRecords(t); err != nil {
		return w.o.inFile(err, "carry", t.ref.File)
	}
	finish := w.syncAll
	if mutant.On(mutant.NoCarrySync) {
		finish = w.Flush
	}
	if err := finish(); err != nil {
		return err
	}
	w.b.Frame(record.Mark, nil, w.mu.seg.durable.Load())
	return w.Flush()
}

// copyRecords builds the records of t.
func (w *Writer) copyRecords(t tail) error {
	f, size, err := w.o.openSegment(t.ref)
	if err != nil {
		return err
	}
	defer closeQuietly(f)
	reader := record.ContinueReader(f, min(size, t.until), t.ref.Salt, t.from.offset, t.from.chain)
	for {
		rec, err := reader.NextRecord()
		if err == io.EOF && reader.Offset() == t.until {
			return nil
		}
		if err == io.EOF {
			return base.Corrupt(reader.Offset(), "end of the records to carry", reader.Offset(), t.until)
		}
		if err != nil {
			return err
		}
		if rec.Kind != record.Whole {
			continue
		}
		if w.b.Offset()+record.Size(int64(len(rec.Payload)), w.o.FrameSizeMax) > w.limit {
			return errOverrun
		}
		w.b.Begin()
		w.Write(rec.Payload)
		w.End()
		if err := w.Err(); err != nil {
			return err
		}
	}
}
