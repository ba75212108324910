//go:build !rocksdb

package stores

const rocksdbMissing = "not built in: install RocksDB's development files (Debian: librocksdb-dev), and build with cgo and -tags rocksdb"

func rocksdbInfo() Info     { return Info{Name: "rocksdb", Missing: rocksdbMissing} }
func rocksdbBlobInfo() Info { return Info{Name: "rocksdb-blob", Missing: rocksdbMissing} }
