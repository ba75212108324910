// Package lmdb binds as much of LMDB as a comparison needs: one database, write
// transactions, and readers that are reset between queries. It is built with
// the tag lmdb, where LMDB's development files are installed.
package lmdb
