//go:build lmdb

package stores

/*
#cgo LDFLAGS: -llmdb
#include "lmdb_glue.h"

#cgo noescape lmdb_reader_get
#cgo nocallback lmdb_reader_get
#cgo noescape lmdb_reader_seek
#cgo nocallback lmdb_reader_seek
#cgo nocallback lmdb_reader_next
#cgo nocallback lmdb_reader_end
#cgo noescape lmdb_put
#cgo nocallback lmdb_put
#cgo noescape lmdb_del
#cgo nocallback lmdb_del
*/
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// lmdbMapBytes is the size of the map, which must exceed the database for
// all time: 256 GiB, less where addresses are short.
const lmdbMapBytes = min(256<<30, math.MaxInt/4)

// lmdbReaders is the number of reader slots, which also is fixed in advance.
const lmdbReaders = 1024

func lmdbInfo() Info {
	return Info{
		Name:    "lmdb",
		Version: fmt.Sprintf("%d.%d.%d", C.MDB_VERSION_MAJOR, C.MDB_VERSION_MINOR, C.MDB_VERSION_PATCH),
		Options: "map of 256 GiB, 1024 readers, NOTLS, NORDAHEAD as its documentation advises for data larger than memory, " +
			"NOSYNC where the workload does not sync; a reset read transaction per reader; one cgo call per entry of a scan; " +
			"no call gives space back while the database is open",
		Open: openLmdb,
	}
}

type lmdbStore struct {
	env *C.MDB_env
	dbi C.MDB_dbi
}

func lmdbError(what string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return fmt.Errorf("lmdb: %s: %s", what, C.GoString(C.mdb_strerror(rc)))
}

func openLmdb(c Config) (Store, error) {
	s := new(lmdbStore)
	if err := lmdbError("create environment", C.mdb_env_create(&s.env)); err != nil {
		return nil, err
	}
	if err := s.open(c); err != nil {
		C.mdb_env_close(s.env)
		return nil, err
	}
	return s, nil
}

func (s *lmdbStore) open(c Config) error {
	C.mdb_env_set_mapsize(s.env, C.size_t(lmdbMapBytes))
	C.mdb_env_set_maxreaders(s.env, lmdbReaders)
	// Goroutines change threads, so readers must not be tied to one.
	flags := C.uint(C.MDB_NOTLS | C.MDB_NORDAHEAD)
	if !c.Sync {
		flags |= C.MDB_NOSYNC
	}
	dir := C.CString(c.Dir)
	defer C.free(unsafe.Pointer(dir))
	if err := lmdbError("open "+c.Dir, C.mdb_env_open(s.env, dir, flags, 0o600)); err != nil {
		return err
	}
	return s.update(func(txn *C.MDB_txn) error {
		return lmdbError("open database", C.mdb_dbi_open(txn, nil, C.MDB_CREATE, &s.dbi))
	})
}

// update runs fn in a write transaction, which belongs to one thread.
func (s *lmdbStore) update(fn func(txn *C.MDB_txn) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var txn *C.MDB_txn
	if err := lmdbError("begin", C.mdb_txn_begin(s.env, nil, 0, &txn)); err != nil {
		return err
	}
	if err := fn(txn); err != nil {
		C.mdb_txn_abort(txn)
		return err
	}
	return lmdbError("commit", C.mdb_txn_commit(txn))
}

func (s *lmdbStore) Apply(b *Batch) error {
	return s.update(func(txn *C.MDB_txn) error {
		for i := range b.Len() {
			if err := s.write(txn, b.At(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *lmdbStore) write(txn *C.MDB_txn, op Op) error {
	k, kn := lent(op.Key)
	if op.Delete {
		return lmdbError("delete", C.lmdb_del(txn, s.dbi, k, kn))
	}
	v, vn := lent(op.Value)
	return lmdbError("put", C.lmdb_put(txn, s.dbi, k, kn, v, vn))
}

func (s *lmdbStore) Collect() error { return nil }

func (s *lmdbStore) Sync() error { return lmdbError("sync", C.mdb_env_sync(s.env, 1)) }

func (s *lmdbStore) Close() error {
	C.mdb_env_close(s.env)
	return nil
}

func (s *lmdbStore) Stats() string {
	var st C.MDB_stat
	var info C.MDB_envinfo
	C.mdb_env_stat(s.env, &st)
	C.mdb_env_info(s.env, &info)
	return fmt.Sprintf("entries %d, depth %d, branch pages %d, leaf pages %d, overflow pages %d, last page %d",
		st.ms_entries, st.ms_depth, st.ms_branch_pages, st.ms_leaf_pages, st.ms_overflow_pages, info.me_last_pgno)
}

type lmdbReader struct{ c *C.lmdb_reader }

func (s *lmdbStore) NewReader() (Reader, error) {
	r := (*C.lmdb_reader)(C.calloc(1, C.sizeof_lmdb_reader))
	if err := lmdbError("begin reading", C.lmdb_reader_open(s.env, s.dbi, r)); err != nil {
		C.free(unsafe.Pointer(r))
		return nil, err
	}
	return lmdbReader{r}, nil
}

func (r lmdbReader) Close() error {
	C.lmdb_reader_close(r.c)
	return nil
}

// lent passes b to a call that only reads it while it runs. The pointer is one
// to characters, so that the check of cgo need not look for pointers in
// whatever b is a part of.
func lent(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}

// lmdbBytes borrows what v points to in the map.
func lmdbBytes(v C.MDB_val) []byte {
	return unsafe.Slice((*byte)(v.mv_data), int(v.mv_size))
}

func (r lmdbReader) Get(key []byte, fn func([]byte) error) (bool, error) {
	k, n := lent(key)
	rc := C.lmdb_reader_get(r.c, k, n)
	defer C.lmdb_reader_end(r.c)
	if rc == C.MDB_NOTFOUND {
		return false, nil
	}
	if rc != 0 {
		return false, lmdbError("get", rc)
	}
	return true, fn(lmdbBytes(r.c.val))
}

func (r lmdbReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	from, n := lent(o.From)
	rc := C.lmdb_reader_seek(r.c, from, n)
	defer C.lmdb_reader_end(r.c)
	left := o.Limit
	for ; rc == 0; rc = C.lmdb_reader_next(r.c) {
		var value []byte
		if !o.KeysOnly {
			value = lmdbBytes(r.c.val)
		}
		if err := fn(lmdbBytes(r.c.key), value); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	if rc == C.MDB_NOTFOUND {
		return nil
	}
	return lmdbError("scan", rc)
}
