// Package rocksdb binds the part of RocksDB that the comparison needs: batches,
// pinned reads and iterators. It needs the build tag rocksdb and RocksDB's
// development files.
package rocksdb
