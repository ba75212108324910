//go:build lmdb

// Functions on top of LMDB's interface. Each does much in one call, so that a
// query needs few calls from Go into C.

#ifndef STOAT_LMDB_GLUE_H
#define STOAT_LMDB_GLUE_H

#include <lmdb.h>
#include <stdlib.h>

// A lmdb_reader is the read transaction of one goroutine, reset between queries,
// with a cursor and the current entry. It is in C memory, so that a call passes
// one pointer.
typedef struct {
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_dbi dbi;
	MDB_val key, val;
} lmdb_reader;

int lmdb_reader_open(MDB_env *env, MDB_dbi dbi, lmdb_reader *r);
void lmdb_reader_close(lmdb_reader *r);

// lmdb_reader_get and lmdb_reader_seek begin a query, and lmdb_reader_end ends
// it. They return LMDB's codes, such as MDB_NOTFOUND. A get that finds no key ends
// its query itself.
int lmdb_reader_get(lmdb_reader *r, const char *key, size_t n);
int lmdb_reader_seek(lmdb_reader *r, const char *key, size_t n);
int lmdb_reader_next(lmdb_reader *r);
void lmdb_reader_end(lmdb_reader *r);

int lmdb_put(MDB_txn *txn, MDB_dbi dbi, const char *k, size_t kn, const char *v, size_t vn);

// lmdb_append puts a key above all others. The cursor stays on the last page, so that the
// next append does not descend from the root.
int lmdb_append(MDB_cursor *c, const char *k, size_t kn, const char *v, size_t vn);

// lmdb_del deletes a key, which need not exist.
int lmdb_del(MDB_txn *txn, MDB_dbi dbi, const char *k, size_t kn);

#endif
