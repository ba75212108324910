//go:build rocksdb

#include "glue.h"

#include <string.h>

// table_options sets the options of RocksDB's page "Setup Options and Basic
// Tuning", with the cache and the filters that all stores get.
static void table_options(rocks_store *s, rocks_config c) {
	s->cache = rocksdb_cache_create_lru(c.cache_bytes);
	s->table = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_cache(s->table, s->cache);
	rocksdb_block_based_options_set_block_size(s->table, 16 << 10);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(s->table, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(s->table, 1);
	rocksdb_block_based_options_set_format_version(s->table, 5);
	rocksdb_block_based_options_set_filter_policy(s->table, rocksdb_filterpolicy_create_bloom_full(10));
}

// blob_options stores values from smallest_blob bytes in blob files, which share
// the block cache.
static void blob_options(rocks_store *s, rocks_config c) {
	rocksdb_options_set_enable_blob_files(s->options, 1);
	rocksdb_options_set_min_blob_size(s->options, c.smallest_blob);
	rocksdb_options_set_blob_compression_type(s->options, rocksdb_snappy_compression);
	rocksdb_options_set_enable_blob_gc(s->options, 1);
	rocksdb_options_set_blob_cache(s->options, s->cache);
}

// log_options recycles log files in synced workloads, as the page "WAL Performance" says. In
// version 7.8.3 this works in one recovery mode only, which skips corrupt records; in the
// others the option is ignored without an error. Versions since 2024 recycle in the default
// mode. The mode of recovery has no effect on the speed of writes, and loses no synced commit.
static void log_options(rocks_store *s, rocks_config c) {
	rocksdb_options_set_recycle_log_file_num(s->options, c.sync ? 4 : 0);
	rocksdb_options_set_wal_recovery_mode(s->options, rocksdb_skip_any_corrupted_records_recovery);
}

static void store_options(rocks_store *s, rocks_config c) {
	s->options = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(s->options, 1);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(s->options, 1);
	rocksdb_options_set_max_background_jobs(s->options, 6);
	rocksdb_options_set_bytes_per_sync(s->options, 1 << 20);
	log_options(s, c);
	rocksdb_options_set_write_buffer_size(s->options, c.memtable_bytes);
	rocksdb_options_set_max_write_buffer_number(s->options, 4); // Pebble gets as many
	rocksdb_options_set_compression(s->options, rocksdb_snappy_compression);
	rocksdb_options_set_block_based_table_factory(s->options, s->table);
	if (c.smallest_blob) blob_options(s, c);
	s->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(s->write, c.sync);
	s->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_readahead_size(s->read, c.read_ahead);
}

rocks_store *rocks_open(const char *dir, rocks_config c, char **error) {
	rocks_store *s = calloc(1, sizeof *s);
	table_options(s, c);
	store_options(s, c);
	// Only this call hands out the column family, which reads of many keys need.
	const char *family = "default";
	const rocksdb_options_t *options = s->options;
	s->db = rocksdb_open_column_families(s->options, dir, 1, &family, &options, &s->family, error);
	if (*error) {
		rocks_close(s);
		return NULL;
	}
	return s;
}

rocks_store *rocks_open_secondary(const char *dir, const char *scratch, rocks_config c, char **error) {
	rocks_store *s = calloc(1, sizeof *s);
	table_options(s, c);
	store_options(s, c);
	s->db = rocksdb_open_as_secondary(s->options, dir, scratch, error);
	if (*error) {
		rocks_close(s);
		return NULL;
	}
	return s;
}

void rocks_close(rocks_store *s) {
	if (s->family) rocksdb_column_family_handle_destroy(s->family);
	if (s->db) rocksdb_close(s->db);
	rocksdb_readoptions_destroy(s->read);
	rocksdb_writeoptions_destroy(s->write);
	rocksdb_options_destroy(s->options);
	rocksdb_block_based_options_destroy(s->table);
	rocksdb_cache_destroy(s->cache);
	free(s);
}

void rocks_compact(rocks_store *s) { rocksdb_compact_range(s->db, NULL, 0, NULL, 0); }

void rocks_write(rocks_store *s, rocksdb_writebatch_t *b, const char *bytes, const rocks_op *ops, size_t n, char **error) {
	rocksdb_writebatch_clear(b);
	for (size_t i = 0; i < n; i++) {
		const char *value = bytes + ops[i].key;
		if (ops[i].is_delete) {
			rocksdb_writebatch_delete(b, bytes, ops[i].key);
		} else {
			rocksdb_writebatch_put(b, bytes, ops[i].key, value, ops[i].value);
		}
		bytes = value + ops[i].value;
	}
	rocksdb_write(s->db, s->write, b, error);
}

int rocks_get(rocks_reader *r, const char *key, size_t n) {
	r->slice = rocksdb_get_pinned(r->store->db, r->store->read, key, n, &r->error);
	if (!r->slice) return 0;
	r->value = rocksdb_pinnableslice_value(r->slice, &r->value_length);
	return 1;
}

void rocks_get_end(rocks_reader *r) { rocksdb_pinnableslice_destroy(r->slice); }

static int entry(rocks_reader *r, int with_value) {
	if (!rocksdb_iter_valid(r->iterator)) {
		rocksdb_iter_get_error(r->iterator, &r->error);
		return 0;
	}
	r->key = rocksdb_iter_key(r->iterator, &r->key_length);
	if (with_value) r->value = rocksdb_iter_value(r->iterator, &r->value_length);
	return 1;
}

int rocks_seek(rocks_reader *r, const char *key, size_t n, int with_value) {
	r->iterator = rocksdb_create_iterator(r->store->db, r->store->read);
	if (n) {
		rocksdb_iter_seek(r->iterator, key, n);
	} else {
		rocksdb_iter_seek_to_first(r->iterator);
	}
	return entry(r, with_value);
}

int rocks_next(rocks_reader *r, int with_value) {
	rocksdb_iter_next(r->iterator);
	return entry(r, with_value);
}

void rocks_seek_end(rocks_reader *r) { rocksdb_iter_destroy(r->iterator); }

int rocks_many(rocks_reader *r, const char *keys, const size_t *lengths, size_t n) {
	const char **starts = malloc(n * sizeof *starts);
	char **errors = calloc(n, sizeof *errors);
	r->many = n;
	r->many_slices = calloc(n, sizeof *r->many_slices);
	r->many_values = calloc(n, sizeof *r->many_values);
	r->many_lengths = calloc(n, sizeof *r->many_lengths);
	for (size_t i = 0; i < n; i++) {
		starts[i] = keys;
		keys += lengths[i];
	}
	rocksdb_batched_multi_get_cf(r->store->db, r->store->read, r->store->family, n, starts, lengths, r->many_slices, errors, 0);
	for (size_t i = 0; i < n; i++) {
		if (r->many_slices[i]) r->many_values[i] = rocksdb_pinnableslice_value(r->many_slices[i], &r->many_lengths[i]);
		if (errors[i] && r->error) rocksdb_free(errors[i]);
		else if (errors[i]) r->error = errors[i];
	}
	free(errors);
	free(starts);
	return r->error == NULL;
}

void rocks_many_end(rocks_reader *r) {
	for (size_t i = 0; i < r->many; i++) {
		if (r->many_slices[i]) rocksdb_pinnableslice_destroy(r->many_slices[i]);
	}
	free(r->many_slices);
	free(r->many_values);
	free(r->many_lengths);
}

void rocks_checkpoint(rocks_store *s, const char *dir, char **error) {
	rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(s->db, error);
	if (*error) return;
	rocksdb_checkpoint_create(c, dir, 0, error); // 0 always flushes the memtable
	rocksdb_checkpoint_object_destroy(c);
}

void rocks_ingest(rocks_store *s, const char *names, size_t n, char **error) {
	const char **list = malloc(n * sizeof *list);
	for (size_t i = 0; i < n; i++) {
		list[i] = names;
		names += strlen(names) + 1;
	}
	rocksdb_ingestexternalfileoptions_t *o = rocksdb_ingestexternalfileoptions_create();
	rocksdb_ingestexternalfileoptions_set_move_files(o, 1);
	rocksdb_ingest_external_file(s->db, list, n, o, error);
	rocksdb_ingestexternalfileoptions_destroy(o);
	free(list);
}
