// Package rocksdb binds as much of RocksDB as a comparison needs: batches,
// pinned reads and iterators. It is built with the tag rocksdb, where RocksDB's
// development files are installed.
package rocksdb
