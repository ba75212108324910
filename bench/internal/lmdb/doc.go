// Package lmdb binds the part of LMDB that the comparison needs: one database,
// write transactions, and readers that are reset between queries. It needs the
// build tag lmdb and LMDB's development files.
package lmdb
