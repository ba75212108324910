package table

// A Cache keeps decompressed blocks. It is given by whoever opens a table,
// shared by all tables, and used by many goroutines. The slices are immutable
// and belong to the garbage collector, so that a reader may hold one for as
// long as it likes after the cache has dropped it.
type Cache interface {
	// Get returns what Put stored for the block of the table that was opened
	// with this id, or nil.
	Get(table, block uint64) []byte
	// Put offers the bytes of a block.
	Put(table, block uint64, data []byte)
}
