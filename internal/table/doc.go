// Package table stores sorted entries in an immutable file and reads them. It reads one key
// by a hash index, ranges in both directions, and everything for a merge.
//
// # The file
//
// Entries are grouped into blocks of about 4 KiB. A block has two separate
// parts: the value part, and the key part with everything else. Key parts of
// neighbouring blocks lie next to each other in extents of 256 KiB. So an
// iteration over keys touches a small, dense piece of the file. The key parts of
// a whole table (6 to 10 bytes a key) stay in the processor's cache where the
// values would not.
//
//	value parts | extent of key parts | value parts | extent | ...
//	zeros to a multiple of 4096
//	hash index    4 or 8 bytes a slot, see hashShape
//	sums          checksums of key parts, value parts, pages of the index
//	fences        8 bytes of the first key of each block, see firstKeys
//	directory     32 bytes a block, see blockEntry
//	deletions     range tombstones, see package rangedel
//	properties    see Properties
//	footer        see footer
//
// Within a key part the fields of entries are columns of fixed width, see view:
// a reader reaches any entry without decoding another. A column is left out if
// it is the same for every entry. docs/format-table.md has the whole format.
//
// # A point read
//
// The hash index maps the hash of the key to (block, entry). The small directory
// says where the columns of the block are. So the processor fetches the key, the
// sequence number and the value in parallel. Versions of one key are neighbours,
// newest first; the index points to the newest.
//
// # Verification
//
// Open verifies the footer, directory, fences, sums, range tombstones and
// properties. The first access verifies a key part, a value part or a page of the
// hash index; a bitmap remembers it. A valid checksum is not trusted: readers
// also check everything that could lead outside the file, so that a hostile file
// causes an error. Verify also checks what could only cause wrong answers.
//
// # Concurrency
//
// A Reader is safe for concurrent use. One goroutine at a time may use a Writer
// or an Iter.
package table
