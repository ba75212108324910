// Package memtable keeps recent writes in memory, outside the Go heap: an
// arena of chunks that hold the entries, a hash index for point reads, and
// sorted runs for iteration.
//
// # Two lives
//
// The same structure serves as the database's memtable and as the write
// buffer of one transaction. A transaction's own table holds its pending
// writes under sequence number 0 (so the transaction can read and iterate
// over them); at commit the entries are copied in bulk into the database's
// memtable under the transaction's number (AppendTable), or, when the
// transaction is as large as a memtable, its table is stamped with the number
// (Stamp) and joins the queue of memtables as it is.
//
// # Concurrency
//
// One goroutine writes at a time. Any number of goroutines read at the same
// time without locks: an entry is complete before the hash slot that leads to
// it is stored atomically. Sorting is not the writer's work: the writer only
// appends to the insertion order, and the first reader that wants to iterate
// sorts what is new into a run (under a mutex of readers), merges runs
// geometrically, and publishes the immutable result for all. The writer sorts
// only when the unsorted tail passes a bound, so that no reader ever meets a
// long one.
//
// # Layout
//
// An entry lies in one chunk, aligned to 8 bytes, and is named by a 32-bit
// reference. The hash index is an open-addressing array of 64-bit slots,
// 32 bits of hash above 32 bits of reference, ordered by the high bits of the
// hash so that growing it is one sequential pass that touches no key. A slot
// leads to the newest version of a key; older versions hang from it in a chain
// that can be searched by sequence number in logarithmic time.
//
// A sorted run is an immutable array of (8-byte key prefix after the run's
// common prefix, reference), ascending by key and, within a key, descending by
// sequence number.
//
// The insertion order is an array of (32 bits of hash, reference). Sequence
// numbers never descend along it, so it is also the list of recent commits
// that transactions are validated against.
package memtable
