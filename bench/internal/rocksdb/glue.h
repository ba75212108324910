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
	size_t read_ahead;    // bytes; 0 adapts
	int sync;
} rocks_config;

typedef struct {
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family; // the default one; NULL in a secondary
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

	// The result of rocks_many. The value of an absent key is NULL.
	size_t many;
	rocksdb_pinnableslice_t **many_slices;
	const char **many_values;
	size_t *many_lengths;
} rocks_reader;

// A rocks_op is one write or deletion, with the lengths of its key and value.
typedef struct {
	size_t key, value;
	int is_delete;
} rocks_op;

rocks_store *rocks_open(const char *dir, rocks_config c, char **error);
// rocks_open_secondary opens a database that another rocks_store has open. Logs go to
// the directory scratch.
rocks_store *rocks_open_secondary(const char *dir, const char *scratch, rocks_config c, char **error);

void rocks_close(rocks_store *s);
void rocks_compact(rocks_store *s);

// rocks_write clears a batch, which keeps its memory, fills it with n operations, and
// writes it. The keys and values follow each other in bytes.
void rocks_write(rocks_store *s, rocksdb_writebatch_t *b, const char *bytes, const rocks_op *ops, size_t n, char **error);

// rocks_get returns whether the key exists. rocks_get_end releases its value.
int rocks_get(rocks_reader *r, const char *key, size_t n);
void rocks_get_end(rocks_reader *r);

// rocks_seek and rocks_next return whether the iterator is on an entry.
int rocks_seek(rocks_reader *r, const char *key, size_t n, int with_value);
int rocks_next(rocks_reader *r, int with_value);
void rocks_seek_end(rocks_reader *r);

// rocks_many gets n keys, whose bytes follow each other. It returns 0 and sets the
// error if one of the reads fails. rocks_many_end releases the values.
int rocks_many(rocks_reader *r, const char *keys, const size_t *lengths, size_t n);
void rocks_many_end(rocks_reader *r);

// rocks_checkpoint makes a checkpoint in a directory that does not exist.
void rocks_checkpoint(rocks_store *s, const char *dir, char **error);

// rocks_ingest moves n files of a table writer into the database. Their names follow
// each other, each with its terminating zero.
void rocks_ingest(rocks_store *s, const char *names, size_t n, char **error);

const char *rocks_version(void);

#endif
