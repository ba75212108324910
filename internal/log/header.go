package log

import (
	"crypto/cipher"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// inUse reports whether a segment with the header h has frames that a span must have
// referred to.
//
// A power cut may take a part of the segments before, as long as no frame says that they are
// durable. Then no span refers to the frames behind.
func (o *Options) inUse(f vfs.File, size int64, h record.Header) (bool, error) {
	aead, err := h.Open(o.Seal)
	if err != nil {
		return false, err
	}
	return record.AnyFrame(f, size, h.Salt, aead, func(fr record.Frame) bool { return !fr.Early && fr.Durable >= record.Start })
}

// usedAfter reports whether a segment after the one with the given number is in use. A
// writer may create and delete files meanwhile.
func (o *Options) usedAfter(number uint64) (used bool, err error) {
	files, err := o.listFiles()
	for _, file := range files {
		if err == nil && !used {
			used, err = o.usedAfterIn(number, file)
		}
	}
	return used, err
}

// usedAfterIn is usedAfter for one file.
func (o *Options) usedAfterIn(number, file uint64) (used bool, err error) {
	f, err := o.FS.Open(o.path(file), vfs.CatLog)
	if errors.Is(err, vfs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, o.inFile(err, "open", file)
	}
	defer closeQuietly(f)
	size, err := f.Size()
	if err != nil {
		return false, o.inFile(err, "read", file)
	}
	headers, err := record.ReadHeaders(f, size, record.TypeLog)
	for _, h := range headers {
		if err == nil && !used && h.File == file && h.Number > number {
			used, err = o.inUse(f, size, h)
		}
	}
	if err != nil {
		return false, o.inFile(err, "read", file)
	}
	return used, nil
}

// An openHeader is what the reader of a segment knows from its header.
type openHeader struct {
	size int64
	aead cipher.AEAD // nil if the log is not encrypted
}

// openSegment opens the segment that ref names for reading. The header must match ref.
func (o *Options) openSegment(ref base.SegmentRef) (vfs.File, openHeader, error) {
	f, err := o.FS.Open(o.path(ref.File), vfs.CatLog)
	if errors.Is(err, vfs.ErrNotExist) {
		err = base.Corrupt(-1, "segment", "no file", fmt.Sprintf("segment %d", ref.Number))
	}
	if err != nil {
		return nil, openHeader{}, o.inFile(err, "open", ref.File)
	}
	h, err := o.readHeader(f, ref)
	if err != nil {
		closeQuietly(f)
		return nil, openHeader{}, o.inFile(err, "open", ref.File)
	}
	return f, h, nil
}

// readHeader looks for the header of the segment that ref names.
func (o *Options) readHeader(f vfs.File, ref base.SegmentRef) (openHeader, error) {
	size, err := f.Size()
	if err != nil {
		return openHeader{}, err
	}
	want := record.Header{Type: record.TypeLog, Number: ref.Number, File: ref.File, Salt: ref.Salt, Size: size}
	headers, err := record.ReadHeaders(f, size, record.TypeLog)
	if err != nil {
		return openHeader{}, err
	}
	var bad error = base.Corrupt(0, "segment header", "none", describe(want))
	for _, h := range headers {
		key, tag := h.Key, h.Tag
		h.Key, h.Tag = want.Key, want.Tag
		if h != want {
			bad = base.Corrupt(0, "segment header", describe(h), describe(want))
			continue
		}
		h.Key, h.Tag = key, tag
		aead, err := h.Open(o.Seal)
		if err == nil {
			return openHeader{size, aead}, nil
		}
		bad = err
	}
	return openHeader{}, bad
}

// describe formats a header for error messages.
func describe(h record.Header) string {
	return fmt.Sprintf("segment %d of file %d with salt %#x and %d bytes", h.Number, h.File, h.Salt, h.Size)
}
