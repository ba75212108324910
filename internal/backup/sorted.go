package backup

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
)

// TypeSorted is the type of a file of sorted entries. Such a file has frames, as a backup. The
// first frame has kind 1 and a random number of 8 bytes. The items follow, with keys of the
// caller in place of stored keys, all of kind 2 and of version 1 of 1. The last frame has the
// number of entries (8) and zero (8).
const TypeSorted = "stoatSRT"

// sortedVersion is the version of the entries of a sorted file.
const sortedVersion base.SeqNum = 1

// A SortedWriter writes a file of sorted entries. After an error, it is of no use.
type SortedWriter struct {
	frames  *frameWriter
	items   items
	comp    *codec.Compressor
	buf     []byte
	last    []byte // the key of the last entry
	entries uint64
}

// NewSortedWriter begins a file. nonce is random. compression is that of settings.
func NewSortedWriter(to io.Writer, nonce uint64, compression settings.Compression) (*SortedWriter, error) {
	frames, err := newFrameWriter(to, TypeSorted)
	if err != nil {
		return nil, err
	}
	w := &SortedWriter{frames: frames, items: items{until: sortedVersion}}
	if c := compression.OfValues(); c != codec.None {
		if w.comp, err = codec.NewCompressor(c, compressMin, codec.SizeMax); err != nil {
			return nil, err
		}
	}
	return w, w.emit(frameHeader, binary.LittleEndian.AppendUint64(nil, nonce))
}

// emit writes a frame.
func (w *SortedWriter) emit(kind uint8, payload []byte) error {
	f := newFrame(kind, payload, w.comp, w.buf)
	w.buf = f.bytes
	return w.frames.write(f)
}

// Add writes an entry, whose key is greater than those before.
func (w *SortedWriter) Add(e *base.Entry) error {
	if w.entries > 0 && bytes.Compare(w.last, e.Key) >= 0 {
		return &base.KeyOrderError{Position: int64(w.entries), Key: bytes.Clone(e.Key), Previous: bytes.Clone(w.last)}
	}
	w.last = append(w.last[:0], e.Key...)
	w.entries++
	it := Item{Entry: *e}
	it.Seq, it.Meta.Kind = sortedVersion, base.KindSet
	value := e.Value
	if len(value) >= LargeMin {
		it.Large, it.Value = uint64(len(value)), nil
	}
	if w.items.n > 0 && len(w.items.buf)+len(it.Key)+len(it.Value) > codec.SizeMax {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.items.add(&it)
	if it.Large == 0 && len(w.items.buf) < itemsSize {
		return nil
	}
	if err := w.flush(); err != nil || it.Large == 0 {
		return err
	}
	for part := range slices.Chunk(value, LargeMin) {
		if err := w.emit(frameChunk, part); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the items that are left.
func (w *SortedWriter) flush() error {
	if w.items.n == 0 {
		return nil
	}
	defer w.items.reset()
	return w.emit(frameItems, w.items.buf)
}

// Finish ends the file. Without it, the file is refused as incomplete.
func (w *SortedWriter) Finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.emit(frameEnd, appendEnd(nil, w.entries, 0))
}

// A SortedReader reads a file of sorted entries. It takes memory for a frame, and Next takes
// memory for the largest value.
type SortedReader struct {
	frames  *frameReader
	items   itemReader
	value   []byte // of more than one frame
	large   uint64 // bytes of the last item's value that are still to read
	entries uint64
	ended   bool
}

// NewSortedReader reads the beginning of a file.
func NewSortedReader(from io.Reader) (*SortedReader, error) {
	frames, err := newFrameReader(from, TypeSorted)
	if err != nil {
		return nil, err
	}
	r := &SortedReader{frames: frames, items: itemReader{until: sortedVersion}}
	switch kind, p, err := frames.next(); {
	case err != nil:
		return nil, err
	case kind != frameHeader || len(p) != 8:
		return nil, r.frames.unexpected(kind)
	}
	return r, nil
}

// Next returns the next entry, which is valid until the call after. It returns io.EOF once
// the whole file is known to be right.
func (r *SortedReader) Next() (base.Entry, error) {
	it, err := r.NextItem()
	if err != nil || it.Large == 0 {
		return it.Entry, err
	}
	r.value = r.value[:0]
	for r.large > 0 {
		p, err := r.Chunk()
		if err != nil {
			return base.Entry{}, err
		}
		r.value = append(r.value, p...)
	}
	it.Value = r.value
	return it.Entry, nil
}

// NextItem is Next without the value of an item that has it in parts. The caller reads all
// of them with Chunk before the next call.
func (r *SortedReader) NextItem() (Item, error) {
	for !r.ended {
		it, ok, err := r.items.next()
		switch {
		case err != nil || !ok:
		case it.Meta.Kind != base.KindSet:
			err = bad("kind of an item", it.Meta.Kind)
		case len(it.Key) > base.UserKeyMax:
			err = bad("length of a key", len(it.Key))
		case it.Meta.ExpiresAt > base.TimeMsMax:
			err = bad("expiry time", it.Meta.ExpiresAt)
		}
		if err != nil {
			return Item{}, r.frames.at(err)
		}
		if ok {
			r.entries++
			r.large = it.Large
			return it, nil
		}
		kind, p, err := r.frames.next()
		switch {
		case err != nil && mutant.On(mutant.SortedCut):
			r.ended = true
		case err != nil:
			return Item{}, err
		case kind == frameEnd:
			if err := r.end(p); err != nil {
				return Item{}, err
			}
		case kind != frameItems || len(p) == 0:
			return Item{}, r.frames.unexpected(kind)
		default:
			r.items.frame(p)
		}
	}
	return Item{}, io.EOF
}

// Chunk returns the next part of the value of the last item, or nothing at its end.
func (r *SortedReader) Chunk() ([]byte, error) { return r.frames.chunk(&r.large) }

// end checks the last frame.
func (r *SortedReader) end(p []byte) error {
	if string(p) != string(appendEnd(nil, r.entries, 0)) {
		return base.Corrupt(r.frames.offset, "number of entries at the end", fmt.Sprintf("%d read", r.entries), "that of the file")
	}
	if err := r.frames.atEnd(); err != nil {
		return err
	}
	r.ended = true
	return nil
}
