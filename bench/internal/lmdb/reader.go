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

// A Reader is one goroutine's read transaction. Get and Seek begin a query of
// the newest state, and End ends it; what they found is borrowed until then.
type Reader struct{ c *C.lmdb_reader }

// NewReader takes a slot for a reader.
func (e *Env) NewReader() (Reader, error) {
	r := (*C.lmdb_reader)(C.calloc(1, C.sizeof_lmdb_reader))
	if err := asError("begin reading", C.lmdb_reader_open(e.env, e.dbi, r)); err != nil {
		C.free(unsafe.Pointer(r))
		return Reader{}, err
	}
	return Reader{r}, nil
}

// Close gives the slot back.
func (r Reader) Close() { C.lmdb_reader_close(r.c) }

// Get looks for key, and returns whether it is there.
func (r Reader) Get(key []byte) (bool, error) {
	k, n := lent(key)
	return found("get", C.lmdb_reader_get(r.c, k, n))
}

// Seek goes to the first entry from key on, of all if key is empty, and
// returns whether there is one.
func (r Reader) Seek(key []byte) (bool, error) {
	k, n := lent(key)
	return found("seek", C.lmdb_reader_seek(r.c, k, n))
}

// Next goes to the next entry, and returns whether there is one.
func (r Reader) Next() (bool, error) { return found("next", C.lmdb_reader_next(r.c)) }

// End ends a query.
func (r Reader) End() { C.lmdb_reader_end(r.c) }

func found(what string, rc C.int) (bool, error) {
	if rc == C.MDB_NOTFOUND {
		return false, nil
	}
	return rc == 0, asError(what, rc)
}

// Key is the key that the query stands on.
func (r Reader) Key() []byte { return borrowed(r.c.key) }

// Value is the value that the query found.
func (r Reader) Value() []byte { return borrowed(r.c.val) }

// borrowed makes a slice of bytes in the map.
func borrowed(v C.MDB_val) []byte { return unsafe.Slice((*byte)(v.mv_data), int(v.mv_size)) }
