// Package table stores sorted entries in an immutable file and reads them:
// one key by a hash index, ranges in order and backward, everything for a
// merge.
//
// # The file
//
// Entries are gathered into blocks of about 4 KiB. A block has two parts,
// which lie apart: the key part with everything but the values, and the value
// part. Key parts of neighbouring blocks lie next to each other in extents of
// a quarter megabyte, so that an iteration over keys touches a small and dense
// piece of the file, and the key parts of a whole table (6 to 10 bytes a key)
// stay in the processor's cache where the values would not.
//
//	value parts | extent of key parts | value parts | extent | ...
//	zeros to a multiple of 4096
//	hash index    4 or 8 bytes a slot, see hashShape
//	sums          checksums of key parts, value parts, pages of the index
//	fences        8 bytes of the first key of each block, see firstKeys
//	directory     32 bytes a block, see blockEntry
//	deletions     range deletions, see package rangedel
//	properties    see Properties
//	footer        see footer
//
// Within a key part the fields of entries are columns of fixed width, see
// view: any entry is reached without decoding another. A column that would
// say the same of every entry is not stored. docs/format-table.md has it all
// in one place.
//
// # A point read
//
// The hash index leads from the hash of the key to (block, entry). The
// directory, which is small, says where the columns of the block are, so that
// the key, the sequence number and the value are all fetched at once. Versions
// of one key are neighbours, newest first; the index leads to the newest.
//
// # What is verified when
//
// Footer, directory, fences, sums, range deletions and properties: when the
// table is opened.
// Key parts, value parts and pages of the hash index: when they are first
// touched; a bitmap remembers. Behind a checksum that fits, everything is
// still checked that could lead outside of the file, so that a hostile file
// costs an error. Verify checks what only costs wrong answers, too.
//
// # Concurrency
//
// A Reader may be used by any number of goroutines; a Writer and an Iter by
// one at a time.
package table
