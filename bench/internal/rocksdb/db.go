//go:build rocksdb

package rocksdb

/*
#cgo LDFLAGS: -lrocksdb
#include "glue.h"

#cgo noescape rocks_write
#cgo nocallback rocks_write
*/
import "C"

import (
	"errors"
	"runtime"
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
	ReadAhead     int // bytes that an iterator reads ahead; 0 adapts it, up to 256 KiB
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
		read_ahead:     C.size_t(o.ReadAhead),
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

// A Batch is a list of writes. It keeps its memory, in Go and in C, for later lists.
type Batch struct {
	c   *C.rocksdb_writebatch_t
	ops []C.rocks_op
}

// NewBatch returns an empty batch. The garbage collector frees it.
func NewBatch() *Batch {
	b := &Batch{c: C.rocksdb_writebatch_create()}
	runtime.AddCleanup(b, func(c *C.rocksdb_writebatch_t) { C.rocksdb_writebatch_destroy(c) }, b.c)
	return b
}

// Reset empties the batch.
func (b *Batch) Reset() { b.ops = b.ops[:0] }

// Put adds a write of a key and a value of these sizes in bytes.
func (b *Batch) Put(key, value int) {
	b.ops = append(b.ops, C.rocks_op{key: C.size_t(key), value: C.size_t(value)})
}

// Delete adds the deletion of a key of this size in bytes.
func (b *Batch) Delete(key int) {
	b.ops = append(b.ops, C.rocks_op{key: C.size_t(key), is_delete: 1})
}

// Write writes b in one call into C. The keys and values of its operations follow each other
// in bytes.
func (db DB) Write(b *Batch, bytes []byte) error {
	var text *C.char
	p, _ := lent(bytes)
	C.rocks_write(db.c, b.c, p, unsafe.SliceData(b.ops), C.size_t(len(b.ops)), &text)
	runtime.KeepAlive(b)
	return takeError(text)
}

// lent passes b to a C call that reads it only during the call.
func lent(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}
