// Package memtable keeps recent writes in memory, outside the Go heap. It has an arena of
// chunks that hold the entries, a hash index for point reads, and sorted runs for
// iteration.
//
// # Two uses
//
// A Table serves as the database's memtable and as the write buffer of one transaction. A
// transaction's own table holds its pending writes under sequence number 0, so the
// transaction can read and iterate over them. At commit, AppendTable copies the entries in
// bulk into the database's memtable, under the transaction's number. If the transaction is
// as large as a memtable, Stamp gives its table the number instead. The table then joins
// the queue of memtables as it is.
//
// # Concurrency
//
// One goroutine writes at a time. Any number of goroutines read at the same time
// without locks. The writer completes an entry before it atomically stores the
// hash slot that leads to it, and before it counts the entry as published. An
// outgrown index stays in memory for readers that still use it.
//
// The writer only appends to the insertion order. The first reader that wants to iterate
// sorts the new entries into a run, under a mutex. Other readers that want to iterate wait
// for it. The first reader merges runs geometrically and publishes the immutable result for
// all readers. The work that one reader does at a time is bounded to some ten milliseconds.
//
// The writer sorts only when the unsorted tail exceeds a bound, so that no
// reader meets a long tail. It does so only if the mutex is free: readers may
// wait for the writer there, but the writer never waits for readers.
//
// Iterators hold references to the runs that they read. Closing an iterator
// frees runs that were merged away.
//
// # Range deletions
//
// A range deletion (range tombstone) is one entry of the insertion order and nothing else.
// Writing it costs as much as any write, however many keys it covers. It hides versions by
// its sequence number. Readers find the newest version of a key and the newest deletion
// that covers it (Cover, AddDeletions). The newer of the two wins. The first reader after a
// write prepares the new deletions for this, as it sorts the new keys.
//
// A transaction's own table has no sequence numbers yet, so positions in the
// insertion order take their place. At commit, the table marks every entry that
// a later deletion of the same transaction covers as dead. So of equal numbers,
// the version that is left is the live one.
//
// # Layout
//
// An entry lies in one chunk, aligned to 8 bytes, and has a 32-bit reference as
// its name. A large entry has its own chunk. Where the padding is cheap, an
// entry starts so that its word and its key share a cache line.
//
// The hash index is an open-addressing array of 64-bit slots: 32 bits of hash
// above 32 bits of reference. The high bits of the hash order the slots, so
// growing the index is one sequential pass that touches no key. A slot leads to
// the newest version of a key. Older versions form a chain from there, with
// logarithmic search by sequence number. A table of a few entries has no index.
//
// The insertion order is an array of (32 bits of hash, reference). Sequence
// numbers never descend along it. So it is also the list of recent commits for
// the validation of transactions.
//
// A sorted run is an immutable array of (12 bytes of key after the run's common prefix,
// reference). It is ascending by key and, within a key, newest first. Together, the runs
// hold the beginning of the insertion order. A radix sort orders the tail by the bits of
// the prefixes that differ. Groups of keys with equal prefixes get their own common prefix
// and are sorted by what follows it.
//
// Chunks, indexes and large runs hold no Go pointers, so they may lie outside
// the Go heap.
//
// # Cost
//
// Measured with 22-byte keys and 128-byte values in random order, on a machine
// where one dependent access to main memory takes 170 ns. A point read takes
// about 230 ns for one of a million keys and 90 ns for an absent key. A write of
// a transaction takes 50 ns, its copy in a batch of a thousand 120 to 200 ns.
// The next entry of a scan takes 30 ns, a seek and ten entries 1,050 ns.
// BenchmarkMemory and the others measure these. BenchmarkSkiplist does the same
// work with an arena skiplist, which takes at least ten times as long.
package memtable
