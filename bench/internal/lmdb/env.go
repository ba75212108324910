//go:build lmdb

package lmdb

/*
#cgo LDFLAGS: -llmdb
#include "glue.h"

#cgo noescape lmdb_put
#cgo nocallback lmdb_put
#cgo noescape lmdb_append
#cgo nocallback lmdb_append
#cgo noescape lmdb_del
#cgo nocallback lmdb_del
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"
)

// Version is the version of the header files.
var Version = fmt.Sprintf("%d.%d.%d", C.MDB_VERSION_MAJOR, C.MDB_VERSION_MINOR, C.MDB_VERSION_PATCH)

// Options are the settings of an environment.
type Options struct {
	MapBytes int // the size of the map; the database cannot grow beyond it
	Readers  int // the most open readers
	NoSync   bool

	// WriteMap writes through the map, whose size is the length of the file until Close.
	WriteMap bool

	// Append writes with MDB_APPEND, through one cursor per transaction. A key that is not
	// above all others is then an error.
	Append bool

	// NoReadAhead advises the system to read only the pages that are asked for.
	NoReadAhead bool
}

// An Env is an open environment with one database.
type Env struct {
	env    *C.MDB_env
	dbi    C.MDB_dbi
	append bool
	mapped string // the file with the length of the map, if there is one
}

// DataFile is the name of the database in its directory.
const DataFile = "data.mdb"

func asError(what string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return fmt.Errorf("lmdb: %s: %s", what, C.GoString(C.mdb_strerror(rc)))
}

// Open opens or creates the environment in dir.
func Open(dir string, o Options) (*Env, error) {
	e := new(Env)
	if err := asError("create environment", C.mdb_env_create(&e.env)); err != nil {
		return nil, err
	}
	if err := e.open(dir, o); err != nil {
		C.mdb_env_close(e.env)
		return nil, err
	}
	e.append = o.Append // from now on: a cursor needs the open database
	return e, nil
}

func (e *Env) open(dir string, o Options) error {
	C.mdb_env_set_mapsize(e.env, C.size_t(o.MapBytes))
	C.mdb_env_set_maxreaders(e.env, C.uint(o.Readers))
	// A goroutine may change threads, so a reader must not belong to one.
	flags := C.uint(C.MDB_NOTLS)
	if o.NoReadAhead {
		flags |= C.MDB_NORDAHEAD
	}
	if o.NoSync {
		flags |= C.MDB_NOSYNC
	}
	if o.WriteMap {
		flags |= C.MDB_WRITEMAP
		e.mapped = filepath.Join(dir, DataFile)
	}
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	if err := asError("open "+dir, C.mdb_env_open(e.env, path, flags, 0o600)); err != nil {
		return err
	}
	return e.Update(func(tx Txn) error {
		return asError("open database", C.mdb_dbi_open(tx.txn, nil, C.MDB_CREATE, &e.dbi))
	})
}

// Sync makes everything committed durable.
func (e *Env) Sync() error { return asError("sync", C.mdb_env_sync(e.env, 1)) }

// CopyTo writes the database to a file or a pipe, and syncs nothing.
func (e *Env) CopyTo(f *os.File) error {
	// Fd also makes the file block, which LMDB needs.
	err := asError("copy", C.mdb_env_copyfd2(e.env, C.int(f.Fd()), 0))
	runtime.KeepAlive(f)
	return err
}

// CopyDir writes the database to an empty directory, and syncs nothing.
func (e *Env) CopyDir(dir string) error {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	return asError("copy to "+dir, C.mdb_env_copy2(e.env, path, 0))
}

// Close closes the environment. The caller has closed all readers.
func (e *Env) Close() error {
	var st C.MDB_stat
	var info C.MDB_envinfo
	C.mdb_env_stat(e.env, &st)
	C.mdb_env_info(e.env, &info)
	C.mdb_env_close(e.env)
	if e.mapped == "" {
		return nil
	}
	// Without the hole at its end, the file can be copied and read as a whole.
	return os.Truncate(e.mapped, (int64(info.me_last_pgno)+1)*int64(st.ms_psize))
}

// Stats returns LMDB's statistics of the database.
func (e *Env) Stats() string {
	var st C.MDB_stat
	var info C.MDB_envinfo
	C.mdb_env_stat(e.env, &st)
	C.mdb_env_info(e.env, &info)
	return fmt.Sprintf("entries %d, depth %d, branch pages %d, leaf pages %d, overflow pages %d, last page %d",
		st.ms_entries, st.ms_depth, st.ms_branch_pages, st.ms_leaf_pages, st.ms_overflow_pages, info.me_last_pgno)
}

// A Txn is a write transaction.
type Txn struct {
	txn    *C.MDB_txn
	dbi    C.MDB_dbi
	cursor *C.MDB_cursor // appends; nil writes keys in any order
}

// Update runs fn in a write transaction, which belongs to one thread.
func (e *Env) Update(fn func(tx Txn) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var txn *C.MDB_txn
	if err := asError("begin", C.mdb_txn_begin(e.env, nil, 0, &txn)); err != nil {
		return err
	}
	tx := Txn{txn: txn, dbi: e.dbi}
	var err error
	if e.append {
		// The end of the transaction closes the cursor.
		err = asError("open cursor", C.mdb_cursor_open(txn, e.dbi, &tx.cursor))
	}
	if err == nil {
		err = fn(tx)
	}
	if err != nil {
		C.mdb_txn_abort(txn)
		return err
	}
	return asError("commit", C.mdb_txn_commit(txn))
}

// Put writes value under key.
func (tx Txn) Put(key, value []byte) error {
	k, kn := lent(key)
	v, vn := lent(value)
	if tx.cursor != nil {
		return asError("append", C.lmdb_append(tx.cursor, k, kn, v, vn))
	}
	return asError("put", C.lmdb_put(tx.txn, tx.dbi, k, kn, v, vn))
}

// Delete deletes key, which need not exist.
func (tx Txn) Delete(key []byte) error {
	k, kn := lent(key)
	return asError("delete", C.lmdb_del(tx.txn, tx.dbi, k, kn))
}

// lent passes b to a C call that reads it only during the call. The pointer is a
// *C.char, so that cgo does not search the memory around b for Go pointers.
func lent(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}
