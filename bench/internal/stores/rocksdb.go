//go:build rocksdb

package stores

/*
#cgo LDFLAGS: -lrocksdb
#include "rocksdb_glue.h"

#cgo noescape rocks_get
#cgo nocallback rocks_get
#cgo nocallback rocks_get_end
#cgo noescape rocks_seek
#cgo nocallback rocks_seek
#cgo nocallback rocks_next
#cgo nocallback rocks_seek_end
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

func rocksdbInfo() Info {
	return Info{
		Name:    "rocksdb",
		Version: C.GoString(C.rocks_version()),
		Options: "its page on basic tuning: dynamic level sizes, six background jobs, blocks of 16 KiB, format 5, " +
			"index and filters in the cache; bloom filters of 10 bits, Snappy; CompactRange to collect",
		Open: func(c Config) (Store, error) { return openRocksdb(c, 0) },
	}
}

// rocksdbBlobSize is the size from which values go to blob files.
const rocksdbBlobSize = 256

func rocksdbBlobInfo() Info {
	info := rocksdbInfo()
	info.Name = "rocksdb-blob"
	info.SmallestValue = rocksdbBlobSize
	info.Options += "; blob files from 256 B with garbage collection, and the block cache for blobs too"
	info.Open = func(c Config) (Store, error) { return openRocksdb(c, rocksdbBlobSize) }
	return info
}

type rocksdbStore struct{ c *C.rocks_store }

// rocksdbError takes over the message that a call left in text.
func rocksdbError(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(text))
	return errors.New("rocksdb: " + C.GoString(text))
}

func openRocksdb(c Config, smallestBlob int) (Store, error) {
	config := C.rocks_config{
		cache_bytes:    C.size_t(c.CacheBytes),
		memtable_bytes: C.size_t(c.MemtableBytes),
		smallest_blob:  C.size_t(smallestBlob),
	}
	if c.Sync {
		config.sync = 1
	}
	dir := C.CString(c.Dir)
	defer C.free(unsafe.Pointer(dir))
	var text *C.char
	s := C.rocks_open(dir, config, &text)
	if err := rocksdbError(text); err != nil {
		return nil, err
	}
	return &rocksdbStore{c: s}, nil
}

// rocksdbBytes passes b to a call that only reads it while it runs.
func rocksdbBytes(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}

func (s *rocksdbStore) Apply(b *Batch) error {
	w := C.rocksdb_writebatch_create()
	defer C.rocksdb_writebatch_destroy(w)
	for i := range b.Len() {
		op := b.At(i)
		k, kn := rocksdbBytes(op.Key)
		if op.Delete {
			C.rocksdb_writebatch_delete(w, k, kn)
			continue
		}
		v, vn := rocksdbBytes(op.Value)
		C.rocksdb_writebatch_put(w, k, kn, v, vn)
	}
	var text *C.char
	C.rocksdb_write(s.c.db, s.c.write, w, &text)
	return rocksdbError(text)
}

func (s *rocksdbStore) Collect() error {
	C.rocks_compact(s.c)
	return nil
}

func (s *rocksdbStore) Sync() error {
	var text *C.char
	C.rocksdb_flush_wal(s.c.db, 1, &text)
	return rocksdbError(text)
}

func (s *rocksdbStore) Close() error {
	C.rocks_close(s.c)
	return nil
}

func (s *rocksdbStore) Stats() string {
	name := C.CString("rocksdb.stats")
	defer C.free(unsafe.Pointer(name))
	text := C.rocksdb_property_value(s.c.db, name)
	defer C.rocksdb_free(unsafe.Pointer(text))
	return C.GoString(text)
}

type rocksdbReader struct{ c *C.rocks_reader }

func (s *rocksdbStore) NewReader() (Reader, error) {
	r := (*C.rocks_reader)(C.calloc(1, C.sizeof_rocks_reader))
	r.store = s.c
	return rocksdbReader{r}, nil
}

func (r rocksdbReader) Close() error {
	C.free(unsafe.Pointer(r.c))
	return nil
}

// takeError returns the error of the last call, if any.
func (r rocksdbReader) takeError() error {
	text := r.c.error
	r.c.error = nil
	return rocksdbError(text)
}

// borrowed makes a slice of RocksDB's bytes.
func borrowed(p *C.char, n C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n))
}

func (r rocksdbReader) Get(key []byte, fn func([]byte) error) (bool, error) {
	k, kn := rocksdbBytes(key)
	if C.rocks_get(r.c, k, kn) == 0 {
		return false, r.takeError()
	}
	defer C.rocks_get_end(r.c)
	return true, fn(borrowed(r.c.value, r.c.value_length))
}

func (r rocksdbReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	withValue := C.int(1)
	if o.KeysOnly {
		withValue = 0
	}
	from, n := rocksdbBytes(o.From)
	ok := C.rocks_seek(r.c, from, n, withValue)
	defer C.rocks_seek_end(r.c)
	left := o.Limit
	for ; ok != 0; ok = C.rocks_next(r.c, withValue) {
		var value []byte
		if !o.KeysOnly {
			value = borrowed(r.c.value, r.c.value_length)
		}
		if err := fn(borrowed(r.c.key, r.c.key_length), value); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	return r.takeError()
}
