//go:build rocksdb

package rocksdb

/*
#include "glue.h"

#cgo noescape rocks_many
#cgo nocallback rocks_many
#cgo nocallback rocks_many_end
#cgo noescape rocksdb_sstfilewriter_put
#cgo nocallback rocksdb_sstfilewriter_put
*/
import "C"

import (
	"strings"
	"unsafe"
)

// OpenSecondary opens the database in dir for reading, while another DB has it open.
// Its logs go to the directory scratch.
func OpenSecondary(dir, scratch string, o Options) (DB, error) {
	path, logs := C.CString(dir), C.CString(scratch)
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(logs))
	var text *C.char
	c := C.rocks_open_secondary(path, logs, o.config(), &text)
	return DB{c}, takeError(text)
}

// CatchUp makes a secondary see what its primary has written.
func (db DB) CatchUp() error {
	var text *C.char
	C.rocksdb_try_catch_up_with_primary(db.c.db, &text)
	return takeError(text)
}

// Checkpoint makes a checkpoint in dir, which does not exist.
func (db DB) Checkpoint(dir string) error {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	var text *C.char
	C.rocks_checkpoint(db.c, path, &text)
	return takeError(text)
}

// Ingest moves the files of table writers into the database.
func (db DB) Ingest(paths []string) error {
	names := C.CString(strings.Join(paths, "\x00"))
	defer C.free(unsafe.Pointer(names))
	var text *C.char
	C.rocks_ingest(db.c, names, C.size_t(len(paths)), &text)
	return takeError(text)
}

// A TableWriter writes a file of sorted entries.
type TableWriter struct {
	c   *C.rocksdb_sstfilewriter_t
	env *C.rocksdb_envoptions_t
}

// NewTableWriter begins a file with the options of the database. The caller must call
// Destroy.
func (db DB) NewTableWriter(path string) (TableWriter, error) {
	env := C.rocksdb_envoptions_create()
	w := TableWriter{c: C.rocksdb_sstfilewriter_create(env, db.c.options), env: env}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text *C.char
	C.rocksdb_sstfilewriter_open(w.c, name, &text)
	return w, takeError(text)
}

// Put adds an entry. Keys ascend.
func (w TableWriter) Put(key, value []byte) error {
	k, kn := lent(key)
	v, vn := lent(value)
	var text *C.char
	C.rocksdb_sstfilewriter_put(w.c, k, kn, v, vn, &text)
	return takeError(text)
}

// Finish ends the file and syncs it.
func (w TableWriter) Finish() error {
	var text *C.char
	C.rocksdb_sstfilewriter_finish(w.c, &text)
	return takeError(text)
}

// Destroy frees the writer.
func (w TableWriter) Destroy() {
	C.rocksdb_sstfilewriter_destroy(w.c)
	C.rocksdb_envoptions_destroy(w.env)
}

// GetMany calls fn with the value of each key, which is nil if the key does not exist.
// The value is borrowed until GetMany returns.
func (r Reader) GetMany(keys [][]byte, fn func(i int, value []byte) error) error {
	if len(keys) == 0 {
		return nil
	}
	var flat []byte
	lengths := make([]C.size_t, len(keys))
	for i, key := range keys {
		flat, lengths[i] = append(flat, key...), C.size_t(len(key))
	}
	bytes, _ := lent(flat)
	ok := C.rocks_many(r.c, bytes, unsafe.SliceData(lengths), C.size_t(len(keys)))
	defer C.rocks_many_end(r.c)
	if ok == 0 {
		return r.Err()
	}
	values, sizes := unsafe.Slice(r.c.many_values, len(keys)), unsafe.Slice(r.c.many_lengths, len(keys))
	for i, value := range values {
		var got []byte
		if value != nil {
			got = borrowed(value, sizes[i])
		}
		if err := fn(i, got); err != nil {
			return err
		}
	}
	return nil
}
