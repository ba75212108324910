// Package cache keeps decoded blocks of tables, outside the Go heap.
//
// Blocks that are stored as they are need no cache: they are read through a
// mapping. A compressed block would be decoded as a whole for each value that
// is read from it; here it is decoded once while it is in use.
//
// Whoever reads from the cache gets a copy of the part it asks for, so that
// blocks may leave at any moment, and the memory is bounded whatever readers
// hold.
package cache
