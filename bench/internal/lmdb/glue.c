//go:build lmdb

#include "glue.h"

int lmdb_reader_open(MDB_env *env, MDB_dbi dbi, lmdb_reader *r) {
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &r->txn);
	if (rc) return rc;
	r->dbi = dbi;
	rc = mdb_cursor_open(r->txn, dbi, &r->cursor);
	if (rc) { mdb_txn_abort(r->txn); return rc; }
	mdb_txn_reset(r->txn);
	return 0;
}

void lmdb_reader_close(lmdb_reader *r) {
	mdb_cursor_close(r->cursor);
	mdb_txn_abort(r->txn);
	free(r);
}

int lmdb_reader_get(lmdb_reader *r, const char *key, size_t n) {
	int rc = mdb_txn_renew(r->txn);
	if (rc) return rc;
	r->key.mv_data = (void *)key;
	r->key.mv_size = n;
	rc = mdb_get(r->txn, r->dbi, &r->key, &r->val);
	if (rc) mdb_txn_reset(r->txn);
	return rc;
}

int lmdb_reader_seek(lmdb_reader *r, const char *key, size_t n) {
	int rc = mdb_txn_renew(r->txn);
	if (rc) return rc;
	rc = mdb_cursor_renew(r->txn, r->cursor);
	if (rc) return rc;
	r->key.mv_data = (void *)key;
	r->key.mv_size = n;
	return mdb_cursor_get(r->cursor, &r->key, &r->val, n ? MDB_SET_RANGE : MDB_FIRST);
}

int lmdb_reader_next(lmdb_reader *r) {
	return mdb_cursor_get(r->cursor, &r->key, &r->val, MDB_NEXT);
}

void lmdb_reader_end(lmdb_reader *r) { mdb_txn_reset(r->txn); }

int lmdb_put(MDB_txn *txn, MDB_dbi dbi, const char *k, size_t kn, const char *v, size_t vn) {
	MDB_val key = {kn, (void *)k}, val = {vn, (void *)v};
	return mdb_put(txn, dbi, &key, &val, 0);
}

int lmdb_append(MDB_cursor *c, const char *k, size_t kn, const char *v, size_t vn) {
	MDB_val key = {kn, (void *)k}, val = {vn, (void *)v};
	return mdb_cursor_put(c, &key, &val, MDB_APPEND);
}

int lmdb_del(MDB_txn *txn, MDB_dbi dbi, const char *k, size_t kn) {
	MDB_val key = {kn, (void *)k};
	int rc = mdb_del(txn, dbi, &key, NULL);
	return rc == MDB_NOTFOUND ? 0 : rc;
}
