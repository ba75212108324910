// Package rocksdb binds the part of RocksDB that the comparison needs: batches,
// pinned reads, iterators, checkpoints, secondaries, and tables that a program
// writes. It needs the build tag rocksdb and RocksDB's development files.
package rocksdb
