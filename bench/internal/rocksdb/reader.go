//go:build rocksdb

package rocksdb

/*
#include "glue.h"

#cgo noescape rocks_get
#cgo nocallback rocks_get
#cgo nocallback rocks_get_end
#cgo noescape rocks_seek
#cgo nocallback rocks_seek
#cgo nocallback rocks_next
#cgo nocallback rocks_seek_end
*/
import "C"

import "unsafe"

// A Reader is for one goroutine and one query at a time. Keys and values are
// borrowed until the end of the query.
type Reader struct{ c *C.rocks_reader }

// NewReader returns a reader.
func (db DB) NewReader() Reader {
	r := (*C.rocks_reader)(C.calloc(1, C.sizeof_rocks_reader))
	r.store = db.c
	return Reader{r}
}

// Close frees the reader.
func (r Reader) Close() { C.free(unsafe.Pointer(r.c)) }

// Get finds key and returns whether it exists. If it does, the caller must call
// GetEnd.
func (r Reader) Get(key []byte) (bool, error) {
	k, n := lent(key)
	if C.rocks_get(r.c, k, n) == 0 {
		return false, r.Err()
	}
	return true, nil
}

// GetEnd releases the value that Get found.
func (r Reader) GetEnd() { C.rocks_get_end(r.c) }

// Seek creates an iterator on the first entry at or after key, and returns
// whether there is one. It fetches the value only if withValue. SeekEnd destroys
// the iterator.
func (r Reader) Seek(key []byte, withValue bool) bool {
	k, n := lent(key)
	return C.rocks_seek(r.c, k, n, flag(withValue)) != 0
}

// Next moves to the next entry, and returns whether there is one.
func (r Reader) Next(withValue bool) bool { return C.rocks_next(r.c, flag(withValue)) != 0 }

// SeekEnd destroys the iterator.
func (r Reader) SeekEnd() { C.rocks_seek_end(r.c) }

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Err returns the error of the last call, if any.
func (r Reader) Err() error {
	text := r.c.error
	r.c.error = nil
	return takeError(text)
}

// Key returns the key of the current entry.
func (r Reader) Key() []byte { return borrowed(r.c.key, r.c.key_length) }

// Value returns the value of the current entry.
func (r Reader) Value() []byte { return borrowed(r.c.value, r.c.value_length) }

// borrowed returns a slice of RocksDB's bytes.
func borrowed(p *C.char, n C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))
}
