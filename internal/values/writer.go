package values

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/scratch"
	"github.com/stoatdb/stoat/vfs"
)

// ErrTooLarge says that a value or a file would exceed a limit of the format.
var ErrTooLarge = errors.New("values: larger than the format allows")

// WriterOptions configure a Writer.
type WriterOptions struct {
	// Num is the identity of the file, which pointers name. It must fit 32 bits.
	Num base.FileNum
	// Salt must be random for each file.
	Salt uint64
	// Compression is the codec for each value, used where it saves an eighth.
	// Default: codec.None.
	Compression codec.ID
}

// Properties describe a sealed file.
type Properties struct {
	Num  base.FileNum
	Salt uint64
	Size int64
	// Values counts the values, and Bytes the bytes of their records: the sum of
	// RefBytes over all pointers into the file.
	Values, Bytes uint64
	// ValueBytes is the total length of the values before compression.
	ValueBytes        uint64
	FirstSeq, LastSeq base.SeqNum
}

// A Writer writes a value file. It has a buffer of half a megabyte, and another one if a
// Copier copies long records into it. It writes longer values without copying them.
type Writer struct {
	out    output
	opts   WriterOptions
	comp   *codec.Compressor
	comps  [codec.Last + 1]*codec.Compressor // those in use so far, comp among them
	foot   footer
	tail   []byte // of the current chunked record
	copied window // buffer for a Copier's long records
	stream bool   // a Stream is open
}

// NewWriter begins a value file in the empty file. The caller keeps ownership of the
// file and closes it.
func NewWriter(file vfs.File, opts WriterOptions) (*Writer, error) {
	if opts.Num > 1<<32-1 {
		return nil, fmt.Errorf("number of value file %d: %w", opts.Num, ErrTooLarge)
	}
	w := &Writer{
		out:  newOutput(file),
		opts: opts,
		foot: footer{fileHeader: fileHeader{salt: opts.Salt, num: opts.Num}},
	}
	if err := w.SetCompression(opts.Compression); err != nil {
		return nil, err
	}
	w.out.write(w.foot.fileHeader.append(nil))
	return w, nil
}

// SetCompression sets the codec for later values.
func (w *Writer) SetCompression(id codec.ID) error {
	if w.comps[id] == nil {
		comp, err := codec.NewCompressor(id, compressMin, compressMax)
		if err != nil {
			return fmt.Errorf("values: %w", err)
		}
		w.comps[id] = comp
	}
	w.comp = w.comps[id]
	return nil
}

// Size returns the current length of the file in bytes.
func (w *Writer) Size() int64 { return w.out.pos() }

// Empty reports whether no value has been appended.
func (w *Writer) Empty() bool { return w.foot.values == 0 }

// Append appends a value. A Reader can use the pointer after Finish.
func (w *Writer) Append(key []byte, seq base.SeqNum, value []byte) (Pointer, error) {
	h := header{seq: seq, valueLen: uint32(len(value)), keyLen: uint32(len(key))}
	if err := w.checkAppend(key, int64(len(value))); err != nil {
		return Pointer{}, err
	}
	h.codec, value = w.comp.Compress(value)
	h.storedLen = uint32(len(value))
	return w.appendRecord(h, key, value)
}

// checkAppend reports why a record cannot be appended.
func (w *Writer) checkAppend(key []byte, valueLen int64) error {
	invariant.Check(!w.stream, "nothing is appended while a stream is open")
	invariant.Check(len(key) > 0, "a key is not empty")
	invariant.Check(len(key) <= base.MaxKeySize, "a key has at most %d bytes: %d", base.MaxKeySize, len(key))
	if valueLen > base.MaxValueSize || w.out.pos() > offsetMax {
		return ErrTooLarge
	}
	return w.out.err
}

// appendRecord appends a record that lacks only its checksum.
func (w *Writer) appendRecord(h header, key, stored []byte) (Pointer, error) {
	at := w.out.pos()
	if h.chunked() {
		w.appendChunked(h, key, stored)
	} else {
		w.out.room(int(h.size()))
		start := len(w.out.buf)
		b := append(h.append(scratch.Grow(w.out.buf, int(h.size()))), key...)
		b = append(b, stored...)
		b = append(b, zeros[:h.size()-h.valueEnd()]...)
		sum := h.recordSum(w.opts.Salt, at, b[start:])
		binary.LittleEndian.PutUint64(b[start:], sum)
		w.out.buf = b
	}
	return w.count(h, at)
}

// zeros is the padding of records.
var zeros [unit]byte

// appendChunked appends a chunked record whose value is in memory.
func (w *Writer) appendChunked(h header, key, stored []byte) {
	at := w.out.pos()
	tail := append(w.tail[:0], zeros[:alignUp(h.valueEnd())-h.valueEnd()]...)
	for off := 0; off < len(stored); off += chunkSize {
		chunk := stored[off:min(off+chunkSize, len(stored))]
		tail = binary.LittleEndian.AppendUint64(tail, partSum(w.opts.Salt, chunk, at+h.valueOff()+int64(off)))
	}
	w.tail = tail
	head := append(h.append(make([]byte, 0, h.valueOff())), key...)
	h.sum = headSum(w.opts.Salt, at, head, tail, at+h.valueEnd())
	binary.LittleEndian.PutUint64(head, h.sum)
	w.out.write(head)
	w.out.write(stored)
	w.out.write(tail)
}

// count adds the record at offset at to the sums of the file.
func (w *Writer) count(h header, at int64) (Pointer, error) {
	invariant.Check(w.out.pos() == at+h.size(), "a record ends where its header says: %d, %d", w.out.pos(), at+h.size())
	if w.out.err != nil {
		return Pointer{}, w.out.err
	}
	w.foot.add(h)
	return NewPointer(w.opts.Num, at, h.size(), h.valueLen), nil
}

// add adds a record to the sums.
func (f *footer) add(h header) {
	if f.values == 0 {
		f.shortest, f.firstSeq, f.lastSeq = h.size(), h.seq, h.seq
	}
	f.values++
	f.valueBytes += uint64(h.valueLen)
	f.shortest = min(f.shortest, h.size())
	f.firstSeq, f.lastSeq = min(f.firstSeq, h.seq), max(f.lastSeq, h.seq)
}

// Finish seals the file and makes its contents durable. The caller syncs its name in
// the directory.
func (w *Writer) Finish() (Properties, error) { return w.finish(nil) }

func (w *Writer) finish(moves []move) (Properties, error) {
	invariant.Check(!w.stream, "no stream is open when the file is sealed")
	w.copied.release()
	f := &w.foot
	f.recordsEnd = w.out.pos()
	if len(moves) > 0 {
		var section []byte
		f.remap, section = buildRemap(moves)
		f.remapSum = partSum(f.salt, section, f.recordsEnd)
		w.out.write(section)
	}
	f.size = w.out.pos() + footerSize
	w.out.write(f.append(nil))
	if err := w.out.sync(); err != nil {
		return Properties{}, err
	}
	return f.properties(), nil
}

func (f *footer) properties() Properties {
	return Properties{
		Num: f.num, Salt: f.salt, Size: f.size, Values: f.values, Bytes: uint64(f.recordsEnd - fileHeaderSize),
		ValueBytes: f.valueBytes, FirstSeq: f.firstSeq, LastSeq: f.lastSeq,
	}
}
