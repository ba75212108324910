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
// it is stored atomically, and before the count of published entries that it
// is part of. An index that was outgrown stays for readers that still use it.
//
// Sorting is not the writer's work: the writer only appends to the insertion
// order, and the first reader that wants to iterate sorts what is new into a
// run (under a mutex, for which others that want to iterate wait), merges runs
// geometrically, and publishes the immutable result for all. How much a reader
// merges at a time is bounded, so that no one pays more than some ten milliseconds
// once. The writer sorts only when the unsorted tail passes a bound, so that no
// reader ever meets a long one, and only if the mutex is free: readers may wait for
// it there, and it never for them. Iterators count as references of the runs they
// read; closing an iterator lets go of runs that were merged away.
//
// # Range deletions
//
// A range deletion is an entry of the insertion order and nothing else, so
// writing one costs what any write costs, whatever it deletes. It hides by its
// number: readers look for the newest version of a key and for the newest
// deletion that covers it (Cover, AddDeletions), and what is older gives way.
// The first reader after a write prepares the new deletions for that, as it
// sorts the new keys. In a transaction's own table nothing has a number yet;
// there the places in the insertion order stand for numbers, and at commit
// everything that a later deletion of the same transaction covers is marked as
// dead, so that of equal numbers the version is the one to live.
//
// # Layout
//
// An entry lies in one chunk, aligned to 8 bytes, and is named by a 32-bit
// reference. A large entry has a chunk to itself. Where it costs little room, an
// entry begins so that its word and its key lie in one line of the processor's
// cache. The hash index is an
// open-addressing array of 64-bit slots, 32 bits of hash above 32 bits of
// reference, ordered by the high bits of the hash so that growing it is one
// sequential pass that touches no key. A slot leads to the newest version of a
// key; older versions hang from it in a chain that can be searched by sequence
// number in logarithmic time. A table of a few entries has no index.
//
// The insertion order is an array of (32 bits of hash, reference). Sequence
// numbers never descend along it, so it is also the list of recent commits
// that transactions are validated against.
//
// A sorted run is an immutable array of (12 bytes of key after the run's
// common prefix, reference), ascending by key and, within a key, newest first.
// All runs together hold the beginning of the insertion order. A tail is
// sorted by radix on the bits of the prefixes that differ; groups of keys that
// the prefixes do not tell apart get their own common prefix and are sorted by
// what follows it.
//
// Neither chunks nor indexes nor large runs hold Go pointers, so they may lie
// in memory the garbage collector does not know.
//
// # Cost
//
// With 22-byte keys and 128-byte values in random order, on a machine where one
// dependent access to main memory takes 170 ns, a point read of one of a
// million keys takes about 230 ns, of an absent key 90, a write of a
// transaction 50, its copy in a batch of a thousand 120 to 200, the next entry
// of a scan 30, a seek and ten entries 1,050 (BenchmarkMemory and the others
// measure them). BenchmarkSkiplist does the same work with an arena skiplist,
// which takes ten times as long or more.
package memtable
