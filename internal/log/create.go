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

// firstSizeMax bounds the size of the free file that a span may start with, in
// multiples of SegmentSizeMin. So a database that was once busy becomes small again.
const firstSizeMax = 16

// Create starts a new span. Its first segment holds the records that r carries,
// and is durable when Create returns. The caller then records in one manifest
// edit r.Spans, followed by an open span that starts with First. After that
// the caller may release the segments before the first of these spans.
//
// A failure, such as a full disk, leaves the log as recovery found it. The
// caller may call Create again with the same r.
func Create(o Options, r Recovered) (*Writer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Writer{o: o}
	w.mu.changed = sync.NewCond(&w.mu)
	w.mu.nextFile = r.nextFile
	w.mu.live = slices.Clone(r.live)
	w.mu.free = slices.Clone(r.free)

	seg, err := w.firstSegment(r)
	if err != nil {
		return nil, err
	}
	w.first = seg.ref
	w.b = record.NewBuilder(seg.ref.Salt, o.FrameSizeMax, seg.aead)
	w.b.SetEarly(true)
	w.enter(seg)
	for _, f := range r.junk {
		// A file that cannot be removed is junk at the next recovery, too.
		_ = o.FS.Remove(o.path(f.file))
	}
	if err := w.carry(r.carry); err != nil {
		w.Abandon(r)
		return nil, err
	}
	return w, nil
}

// Abandon undoes Create(o, r). It gives up a span that the manifest does not
// know and that has begun only its first segment. The log is then as recovery
// found it, and the caller may call Create again with r. No other call may follow.
func (w *Writer) Abandon(r Recovered) {
	w.mu.seg.close()
	// Nothing refers to the file. If r lists it as free, the next Create may
	// take it again. Otherwise it is new: remove it, or else it is free as well.
	if !slices.ContainsFunc(r.free, func(f segmentFile) bool { return f.file == w.first.File }) {
		_ = w.o.FS.Remove(w.o.path(w.first.File))
	}
}

// firstSegment makes the first segment of the span, with room for all carried
// records: only the first segment of a span may hold early records.
func (w *Writer) firstSegment(r Recovered) (*segment, error) {
	carried := int64(0)
	for _, t := range r.carry {
		// The records take as much as before. A record that was split at another
		// frame size may need more frames.
		n := t.until - t.from.offset
		carried += n + n/int64(w.o.FrameSizeMax)*2*record.FrameHeaderSize
	}
	size := max(w.o.SegmentSizeMin, segmentSize(carried))
	free, recycle := w.takeFreeLocked(size, max(size, firstSizeMax*w.o.SegmentSizeMin))
	if recycle {
		seg, err := w.o.recycleSegment(w.newRef(r.next, free.file), free, false)
		if err == nil {
			return seg, nil
		}
		// The file may be unusable: leave it to the next recovery.
	}
	seg, err := w.create(r.next, size, false)
	if errors.Is(err, vfs.ErrNoSpace) {
		seg, err = w.prepareFull(r.next, size, plan{need: carried}, false)
	}
	if err != nil {
		return nil, fmt.Errorf("log: prepare the first segment: %w", err)
	}
	return seg, nil
}

// carry writes the records of tails again, at the front of the new span.
func (w *Writer) carry(tails []tail) error {
	if len(tails) == 0 || mutant.On(mutant.NoCarry) {
		return nil
	}
	for _, t := range tails {
		if err := w.copyRecords(t); err != nil {
			return w.o.inFile(err, "carry", t.ref.File)
		}
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
	f, h, err := w.o.openSegment(t.ref)
	if err != nil {
		return err
	}
	defer closeQuietly(f)
	reader := record.ContinueReader(f, min(h.size, t.until), t.ref.Salt, h.aead, t.from.offset, t.from.chain)
	for {
		rec, err := reader.NextRecord()
		if err == io.EOF && reader.Offset() == t.until {
			return nil
		}
		if err == io.EOF {
			return base.Corrupt(reader.Offset(), "end of the carried records", reader.Offset(), t.until)
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
