package values

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// Get returns the value that p leads to, which must be that of version seq of
// key. A value that is stored as it is is borrowed from the mapping and valid
// until Close. A compressed one is decoded into the arena, which may be nil.
func (r *Reader) Get(p Pointer, key []byte, seq base.SeqNum, arena *codec.Arena) ([]byte, error) {
	v := r.v.Load()
	if v == nil {
		var err error
		if v, err = r.mapped(); err != nil {
			return nil, err
		}
	}
	r.gauge.Touch()
	at, err := v.place(p)
	if err != nil {
		return nil, r.inFile(err)
	}
	rec := v.data[at : at+p.Length : at+p.Length]
	if !v.marks.has(at) {
		if err := r.verify(v, at, rec); err != nil {
			return nil, err
		}
	}
	h := loadHeader(rec)
	if h.size() != p.Length || !h.is(p, key, seq, rec) {
		return nil, r.inFile(mismatch(at, &h, p, seq))
	}
	stored := rec[h.valueOff():h.valueEnd():h.valueEnd()]
	if h.compressed() {
		value, err := h.decode(stored, at, arena)
		return value, r.inFile(err)
	}
	return stored, nil
}

// decode returns the value that stored holds, in the record at offset at. Its
// length has been held against compressMax.
func (h *header) decode(stored []byte, at int64, arena *codec.Arena) ([]byte, error) {
	value := arena.Alloc(int(h.valueLen))
	err := h.codec.Decode(value, stored)
	if arena.Filled(len(value)); err == nil {
		return value, nil
	}
	if c, ok := err.(*base.CorruptionError); ok {
		c.Offset = at + h.valueOff()
	}
	return nil, err
}

// is reports whether the record is that of p, key and seq. rec has at least
// the key. A record of version 0 was written before its version was known, to
// a file that has its key once.
func (h *header) is(p Pointer, key []byte, seq base.SeqNum, rec []byte) bool {
	return (h.seq == seq || h.seq == 0) && h.valueLen == p.ValueLen && int(h.keyLen) == len(key) && string(rec[headerSize:headerSize+len(key)]) == string(key)
}

// mismatch says what a pointer led to. Keys are not shown: they are the
// user's.
func mismatch(at int64, h *header, p Pointer, seq base.SeqNum) error {
	return base.Corrupt(at, "record that a pointer leads to",
		fmt.Sprintf("version %d, %d bytes with a value of %d", h.seq, h.size(), h.valueLen),
		fmt.Sprintf("version %d of the pointer's key, %d bytes with a value of %d", seq, p.Length, p.ValueLen))
}

// verify fetches and verifies rec, which a pointer has at offset at.
func (r *Reader) verify(v *view, at int64, rec []byte) error {
	if err := r.fetch(v, at, int64(len(rec))); err != nil {
		return err
	}
	h, err := decodeHeader(rec, at, v.end)
	if err != nil {
		return r.inFile(err)
	}
	if h.size() != int64(len(rec)) {
		return r.inFile(base.Corrupt(at, "length of a record", h.size(), len(rec)))
	}
	if err := h.checkRecord(r.salt, at, rec); err != nil {
		return r.inFile(err)
	}
	v.marks.set(at)
	return nil
}

// fetchAhead is what is fetched at once when records are touched in the order
// of the file: one system call for many.
const fetchAhead = 128 << 10

// fetch makes sure that [at, at+n), which is about to be touched for the first
// time, has been read from the file. Two goroutines that go through the file at
// once spoil each other's order, which costs them system calls.
func (r *Reader) fetch(v *view, at, n int64) error {
	next := r.next.Swap(at + n)
	inOrder := at >= next && at-next <= prefetchGap
	if inOrder && at+n <= r.fetched.Load() {
		return nil
	}
	if inOrder {
		n = max(n, min(fetchAhead, v.end-at))
	}
	r.fetched.Store(at + n)
	brought, err := v.m.Populate(at, n)
	r.gauge.Add(brought, v.end)
	return err
}
