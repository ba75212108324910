//go:build rocksdb

// Functions on top of RocksDB's C interface. Each does much in one call, so that
// a query needs few calls from Go into C.

#ifndef STOAT_ROCKSDB_GLUE_H
#define STOAT_ROCKSDB_GLUE_H

#include <rocksdb/c.h>
#include <stdlib.h>

typedef struct {
	size_t cache_bytes;
	size_t memtable_bytes;
	size_t smallest_blob; // bytes; 0 keeps all values in the tables
	int sync;
} rocks_config;

typedef struct {
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_block_based_table_options_t *table;
	rocksdb_cache_t *cache;
	rocksdb_writeoptions_t *write;
	rocksdb_readoptions_t *read;
} rocks_store;

// A rocks_reader holds the result of its last call. RocksDB owns the bytes.
typedef struct {
	rocks_store *store;
	rocksdb_pinnableslice_t *slice;
	rocksdb_iterator_t *iterator;
	const char *key, *value;
	size_t key_length, value_length;
	char *error;
} rocks_reader;

rocks_store *rocks_open(const char *dir, rocks_config c, char **error);
void rocks_close(rocks_store *s);
void rocks_compact(rocks_store *s);

// rocks_get returns whether the key exists. rocks_get_end releases its value.
int rocks_get(rocks_reader *r, const char *key, size_t n);
void rocks_get_end(rocks_reader *r);

// rocks_seek and rocks_next return whether the iterator is on an entry.
int rocks_seek(rocks_reader *r, const char *key, size_t n, int with_value);
int rocks_next(rocks_reader *r, int with_value);
void rocks_seek_end(rocks_reader *r);

const char *rocks_version(void);

#endif
