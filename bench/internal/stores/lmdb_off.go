//go:build !lmdb

package stores

func lmdbInfo() Info {
	return Info{Name: "lmdb", Missing: "not built in: needs LMDB's development files (Debian: liblmdb-dev), cgo and -tags lmdb"}
}
