//go:build lmdb

package lmdb

/*
#include "glue.h"

#cgo noescape lmdb_reader_get
#cgo nocallback lmdb_reader_get
#cgo noescape lmdb_reader_seek
#cgo nocallback lmdb_reader_seek
#cgo nocallback lmdb_reader_next
#cgo nocallback lmdb_reader_end
*/
import "C"

import "unsafe"

// A Reader is the read transaction of one goroutine. Get and Seek begin a query
// of the newest state, and End ends it. Keys and values are borrowed until End.
// Get begins no query if it does not find its key.
type Reader struct{ c *C.lmdb_reader }

// NewReader opens a reader, which takes one of Options.Readers.
func (e *Env) NewReader() (Reader, error) {
	r := (*C.lmdb_reader)(C.calloc(1, C.sizeof_lmdb_reader))
	if err := asError("begin reading", C.lmdb_reader_open(e.env, e.dbi, r)); err != nil {
		C.free(unsafe.Pointer(r))
		return Reader{}, err
	}
	return Reader{r}, nil
}

// Close closes the reader.
func (r Reader) Close() { C.lmdb_reader_close(r.c) }

// Get finds key, and returns whether it exists.
func (r Reader) Get(key []byte) (bool, error) {
	k, n := lent(key)
	return found("get", C.lmdb_reader_get(r.c, k, n))
}

// Seek moves to the first entry at or after key, and returns whether there is
// one. An empty key means the first entry of all.
func (r Reader) Seek(key []byte) (bool, error) {
	k, n := lent(key)
	return found("seek", C.lmdb_reader_seek(r.c, k, n))
}

// Next moves to the next entry, and returns whether there is one.
func (r Reader) Next() (bool, error) { return found("next", C.lmdb_reader_next(r.c)) }

// End ends a query.
func (r Reader) End() { C.lmdb_reader_end(r.c) }

func found(what string, rc C.int) (bool, error) {
	if rc == C.MDB_NOTFOUND {
		return false, nil
	}
	return rc == 0, asError(what, rc)
}

// Key returns the key of the current entry.
func (r Reader) Key() []byte { return borrowed(r.c.key) }

// Value returns the value of the current entry.
func (r Reader) Value() []byte { return borrowed(r.c.val) }

// borrowed returns a slice of bytes in the map.
func borrowed(v C.MDB_val) []byte { return unsafe.Slice((*byte)(v.mv_data), int(v.mv_size)) }
