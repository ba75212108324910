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

// A Reader is for one goroutine, and for one query at a time. What a query
// found is borrowed until its end.
type Reader struct{ c *C.rocks_reader }

// NewReader returns a reader.
func (db DB) NewReader() Reader {
	r := (*C.rocks_reader)(C.calloc(1, C.sizeof_rocks_reader))
	r.store = db.c
	return Reader{r}
}

// Close frees the reader.
func (r Reader) Close() { C.free(unsafe.Pointer(r.c)) }

// Get looks for key. If it is found, GetEnd lets go of the value.
func (r Reader) Get(key []byte) (bool, error) {
	k, n := lent(key)
	if C.rocks_get(r.c, k, n) == 0 {
		return false, r.Err()
	}
	return true, nil
}

// GetEnd lets go of the value that Get found.
func (r Reader) GetEnd() { C.rocks_get_end(r.c) }

// Seek makes an iterator on the first entry from key on, with its value if
// asked, and returns whether there is one. SeekEnd destroys it.
func (r Reader) Seek(key []byte, withValue bool) bool {
	k, n := lent(key)
	return C.rocks_seek(r.c, k, n, flag(withValue)) != 0
}

// Next goes to the next entry, and returns whether there is one.
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

// Key is the key that the iterator stands on.
func (r Reader) Key() []byte { return borrowed(r.c.key, r.c.key_length) }

// Value is the value that the query found.
func (r Reader) Value() []byte { return borrowed(r.c.value, r.c.value_length) }

// borrowed makes a slice of RocksDB's bytes.
func borrowed(p *C.char, n C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))
}
