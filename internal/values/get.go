package values

import (
	"fmt"
	"runtime"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// endNear is the length in bytes up to which Get loads the end of a record together with
// its header. The end of a longer record may need a page that the caller never reads.
const endNear = 64 << 10

// Get returns the value that p points to, which must be that of version seq of key. An
// uncompressed value is borrowed from the mapping and valid until Close. A
// compressed one is decoded into the arena, which may be nil.
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
	rec := v.data[at : at+p.Length() : at+p.Length()]
	if !v.marks.has(at) {
		if rec, err = r.verified(v, at, rec); err != nil {
			return nil, err
		}
	}
	end := rec[min(len(rec), endNear)-1] // its cache miss overlaps with that of the header
	h := loadHeader(rec)
	runtime.KeepAlive(end)
	if h.size() != p.Length() || !h.is(p, key, seq, rec) {
		return nil, r.inFile(mismatch(at, &h, p, seq))
	}
	stored := rec[h.valueOff():h.valueEnd():h.valueEnd()]
	if h.compressed() {
		value, err := h.decode(stored, at, arena)
		return value, r.inFile(err)
	}
	return stored, nil
}

// decode returns the decoded value of stored, in the record at offset at. Its length
// is at most compressMax.
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

// is reports whether the record matches p, key and seq. rec contains at least the key.
// A record of version 0 was written before its version was known, to a file that holds
// its key once.
func (h *header) is(p Pointer, key []byte, seq base.SeqNum, rec []byte) bool {
	return (h.seq == p.Of(seq) || h.seq == 0) && h.valueLen == p.ValueLen && int(h.keyLen) == len(key) && string(rec[headerSize:headerSize+len(key)]) == string(key)
}

// mismatch describes the record that a pointer led to. It does not show keys, which
// belong to the user.
func mismatch(at int64, h *header, p Pointer, seq base.SeqNum) error {
	return base.Corrupt(at, "record that a pointer leads to",
		fmt.Sprintf("version %d, %d bytes with a value of %d", h.seq, h.size(), h.valueLen),
		fmt.Sprintf("version %d of the pointer's key, %d bytes with a value of %d", p.Of(seq), p.Length(), p.ValueLen))
}

// verified fetches and verifies rec, the record at offset at, and returns it. If the
// plain pages of sealed files have reached their limit, it returns a copy on the Go heap
// and keeps nothing.
func (r *Reader) verified(v *view, at int64, rec []byte) ([]byte, error) {
	if v.sealed == nil || !v.sealed.Crowded() {
		return rec, r.verify(v, at, rec)
	}
	rec = make([]byte, len(rec))
	if _, err := v.sealed.ReadAt(rec, at); err != nil {
		return nil, r.inFile(err)
	}
	return rec, r.check(v, at, rec)
}

// verify fetches and verifies rec, the record at offset at.
func (r *Reader) verify(v *view, at int64, rec []byte) error {
	if err := r.fetch(v, at, int64(len(rec))); err != nil {
		return err
	}
	drops := v.drops.Load()
	if err := r.check(v, at, rec); err != nil {
		return err
	}
	v.mark(at, drops)
	return nil
}

// check checks rec, the record at offset at.
func (r *Reader) check(v *view, at int64, rec []byte) error {
	h, err := decodeHeader(rec, at, v.end)
	if err != nil {
		return r.inFile(err)
	}
	if h.size() != int64(len(rec)) {
		return r.inFile(base.Corrupt(at, "length of a record", h.size(), len(rec)))
	}
	return r.inFile(h.checkRecord(r.salt, at, rec))
}

// fetchAhead is the number of bytes fetched at once when records are read in file
// order: one system call for many records.
const fetchAhead = 128 << 10

// fetch makes sure that [at, at+n) has been read from the file before its first access.
// Two goroutines that scan the file at once disturb each other's sequence, which costs
// them system calls.
func (r *Reader) fetch(v *view, at, n int64) error {
	next := r.next.Swap(at + n)
	inOrder := at >= next && at-next <= prefetchGap
	// Another goroutine may have moved fetched, so the bytes may not be there yet. The first
	// access to a mapped page then waits for the device. A page of a sealed file needs
	// Populate, which decrypts it.
	fetched := inOrder && at+n <= r.fetched.Load()
	if fetched {
		if v.sealed == nil {
			return nil
		}
		return r.populate(v, at, n)
	}
	r.fetched.Store(0) // until the bytes are there
	length := n
	if inOrder {
		length = max(n, min(fetchAhead, v.end-at))
	}
	err := r.populate(v, at, length)
	if err != nil && length > n {
		// What cannot be read may lie behind the record.
		length = n
		err = r.populate(v, at, n)
	}
	if err == nil {
		r.fetched.Store(at + length)
	}
	return err
}

// populate brings [at, at+n) of the file into memory.
func (r *Reader) populate(v *view, at, n int64) error {
	brought, err := v.m.Populate(at, n)
	r.gauge.Add(brought, v.end)
	return err
}
