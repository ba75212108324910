//go:build lmdb

// What the adapter needs of LMDB beside its own interface, in calls coarse
// enough that a query costs few crossings between Go and C.

#ifndef STOAT_LMDB_GLUE_H
#define STOAT_LMDB_GLUE_H

#include <lmdb.h>
#include <stdlib.h>

// A reader is one goroutine's read transaction, reset between queries, with
// a cursor and the entry it stands on. It lives in C memory, so that a call
// passes one pointer.
typedef struct {
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_dbi dbi;
	MDB_val key, val;
} lmdb_reader;

int lmdb_reader_open(MDB_env *env, MDB_dbi dbi, lmdb_reader *r);
void lmdb_reader_close(lmdb_reader *r);

// lmdb_reader_get and lmdb_reader_seek begin a query, which ends with
// lmdb_reader_end. They return LMDB's codes; MDB_NOTFOUND is one.
int lmdb_reader_get(lmdb_reader *r, const char *key, size_t n);
int lmdb_reader_seek(lmdb_reader *r, const char *key, size_t n);
int lmdb_reader_next(lmdb_reader *r);
void lmdb_reader_end(lmdb_reader *r);

int lmdb_put(MDB_txn *txn, MDB_dbi dbi, const char *k, size_t kn, const char *v, size_t vn);

// lmdb_del deletes a key, which need not be there.
int lmdb_del(MDB_txn *txn, MDB_dbi dbi, const char *k, size_t kn);

#endif
