//go:build !lmdb

package stores

func lmdbInfo() Info {
	return Info{Name: "lmdb", Missing: "not built in: install LMDB's development files (Debian: liblmdb-dev), and build with cgo and -tags lmdb"}
}
