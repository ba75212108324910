//go:build !rocksdb

package stores

const rocksdbMissing = "not built in: needs RocksDB's development files (Debian: librocksdb-dev), cgo and -tags rocksdb"

func rocksdbInfo() Info     { return Info{Name: "rocksdb", Missing: rocksdbMissing} }
func rocksdbBlobInfo() Info { return Info{Name: "rocksdb-blob", Missing: rocksdbMissing} }
