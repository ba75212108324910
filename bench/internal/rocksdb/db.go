//go:build rocksdb

package rocksdb

/*
#cgo LDFLAGS: -lrocksdb
#include "glue.h"

#cgo noescape rocksdb_writebatch_put
#cgo nocallback rocksdb_writebatch_put
#cgo noescape rocksdb_writebatch_delete
#cgo nocallback rocksdb_writebatch_delete
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Version is the version of the header files.
var Version = C.GoString(C.rocks_version())

// Options are the settings that differ between workloads.
type Options struct {
	CacheBytes    int64
	MemtableBytes int64
	SmallestBlob  int // size in bytes of the smallest value in a blob file; 0 for no blob files
	Sync          bool
}

// A DB is an open database.
type DB struct{ c *C.rocks_store }

// takeError returns the error message in text and frees it.
func takeError(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(text))
	return errors.New("rocksdb: " + C.GoString(text))
}

func (o Options) config() C.rocks_config {
	return C.rocks_config{
		cache_bytes:    C.size_t(o.CacheBytes),
		memtable_bytes: C.size_t(o.MemtableBytes),
		smallest_blob:  C.size_t(o.SmallestBlob),
		sync:           flag(o.Sync),
	}
}

// Open opens or creates the database in dir.
func Open(dir string, o Options) (DB, error) {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	var text *C.char
	c := C.rocks_open(path, o.config(), &text)
	return DB{c}, takeError(text)
}

// Close closes the database. The caller has closed all readers.
func (db DB) Close() { C.rocks_close(db.c) }

// CompactRange compacts all keys.
func (db DB) CompactRange() { C.rocks_compact(db.c) }

// SyncLog makes everything written durable.
func (db DB) SyncLog() error {
	var text *C.char
	C.rocksdb_flush_wal(db.c.db, 1, &text)
	return takeError(text)
}

// Stats returns RocksDB's own statistics.
func (db DB) Stats() string {
	name := C.CString("rocksdb.stats")
	defer C.free(unsafe.Pointer(name))
	text := C.rocksdb_property_value(db.c.db, name)
	defer C.rocksdb_free(unsafe.Pointer(text))
	return C.GoString(text)
}

// A Batch is a list of writes.
type Batch struct{ c *C.rocksdb_writebatch_t }

// NewBatch returns an empty batch. The caller must call Destroy.
func NewBatch() Batch { return Batch{C.rocksdb_writebatch_create()} }

// Destroy frees the batch.
func (b Batch) Destroy() { C.rocksdb_writebatch_destroy(b.c) }

// Put adds a write of value under key.
func (b Batch) Put(key, value []byte) {
	k, kn := lent(key)
	v, vn := lent(value)
	C.rocksdb_writebatch_put(b.c, k, kn, v, vn)
}

// Delete adds the deletion of key.
func (b Batch) Delete(key []byte) {
	k, kn := lent(key)
	C.rocksdb_writebatch_delete(b.c, k, kn)
}

// Write writes b.
func (db DB) Write(b Batch) error {
	var text *C.char
	C.rocksdb_write(db.c.db, db.c.write, b.c, &text)
	return takeError(text)
}

// lent passes b to a C call that reads it only during the call.
func lent(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}
