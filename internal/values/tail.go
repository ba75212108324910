package values

import (
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/vfs"
)

// A Tail reads a file that is still being written, as far as it was flushed.
// It copies: what is mapped must not be written to. Any number of goroutines
// may use one.
type Tail struct{ source }

// NewTail reads file, whose header says num and salt. It does not take the
// file over.
func NewTail(file vfs.File, num base.FileNum, salt uint64, name string) *Tail {
	return &Tail{source{file: file, name: name, fileHeader: fileHeader{salt: salt, num: num}}}
}

// Get returns a copy of the value that p leads to, which must be that of
// version seq of key.
func (t *Tail) Get(p Pointer, key []byte, seq base.SeqNum) ([]byte, error) {
	size, err := t.file.Size()
	if err != nil {
		return nil, err
	}
	v := view{end: size}
	at, err := v.place(p)
	if err != nil {
		return nil, t.inFile(err)
	}
	rec, h, err := t.readRecord(at, p.Length)
	if err != nil {
		return nil, t.inFile(err)
	}
	if !h.is(p, key, seq, rec) {
		return nil, t.inFile(mismatch(at, &h, p, seq))
	}
	stored := rec[h.valueOff():h.valueEnd():h.valueEnd()]
	if h.compressed() {
		stored, err = decompress(stored, h.valueLen, at+h.valueOff())
	}
	return stored, t.inFile(err)
}

// readRecord reads and verifies the record of length n at offset at. That it
// lies within the file is known.
func (s *source) readRecord(at, n int64) ([]byte, header, error) {
	if n > math.MaxInt {
		return nil, header{}, ErrTooLarge // for the memory of this machine
	}
	rec := make([]byte, n)
	if err := readFull(s.file, rec, at); err != nil {
		return nil, header{}, err
	}
	h, err := decodeHeader(rec, at, at+n)
	if err != nil {
		return nil, h, err
	}
	if h.size() != n {
		return nil, h, base.Corrupt(at, "length of a record", h.size(), n)
	}
	return rec, h, h.checkRecord(s.salt, at, rec)
}
