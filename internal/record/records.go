package record

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// NextRecord returns the next record (Whole), assembled from its frames, or a frame of
// another kind (Mark, Next, Close). The errors are those of Next. A record whose last frame
// is missing does not exist. The reader grows a buffer to the size of the record, but never
// beyond the bytes that it found.
func (r *Reader) NextRecord() (Frame, error) { return r.nextRecord(true) }

// PassRecord is NextRecord without the payload of a record of several frames. It
// takes no more memory than one frame.
func (r *Reader) PassRecord() (Frame, error) { return r.nextRecord(false) }

func (r *Reader) nextRecord(gather bool) (Frame, error) {
	if !r.midway {
		f, err := r.Next()
		if err != nil {
			return Frame{}, err
		}
		switch f.Kind {
		case Middle, Last:
			return Frame{}, r.fail(base.Corrupt(f.Offset, "frame order", f.Kind, "whole or first"))
		case First:
		default:
			return f, nil
		}
		r.first, r.midway = f, true
		r.partial = r.partial[:0]
		r.gather(gather, f.Payload)
	}
	return r.rest(gather)
}

// rest returns the record of which partial has the first frames. If the rest of a live
// file is not written yet, a later call goes on.
func (r *Reader) rest(gather bool) (Frame, error) {
	f := Frame{End: r.offset, Checksum: r.chain, Durable: r.first.Durable}
	for f.Kind != Last {
		next, err := r.Next()
		if err != nil && mutant.On(mutant.PartialTxn) {
			break
		}
		if err != nil {
			return Frame{}, err
		}
		if f = next; f.Kind != Middle && f.Kind != Last {
			return Frame{}, r.fail(base.Corrupt(f.Offset, "frame order", f.Kind, "middle or last"))
		}
		r.gather(gather, f.Payload)
	}
	rec := r.first
	r.midway = false
	rec.Kind, rec.Payload = Whole, r.partial
	rec.End, rec.Checksum, rec.Durable = f.End, f.Checksum, f.Durable
	return rec, nil
}

// gather adds p to the record if wanted is true.
func (r *Reader) gather(wanted bool, p []byte) {
	if !wanted {
		return
	}
	if len(r.partial)+len(p) > cap(r.partial) {
		// Double the capacity: append alone would copy a large record several
		// times.
		r.partial = slices.Grow(r.partial, len(r.partial)+len(p))
	}
	r.partial = append(r.partial, p...)
}

// fail makes every later call return err, and returns err.
func (r *Reader) fail(err error) error {
	r.err = err
	return err
}
