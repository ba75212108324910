// Package values stores values apart from their keys, in value files that tables
// point into. It also collects the garbage of those files.
//
// # The file
//
// A value file is a header, consecutive records, and a footer. A file that
// garbage collection rewrote has a remap between records and footer.
//
//	header   40 bytes, see fileHeader
//	records  see header: lengths, key, version and checksum beside each value
//	remap    see remap; only in a rewritten file
//	footer   120 bytes, see footer
//
// A Pointer names a record by the identity of the file and the original offset of
// the record. The record holds key and version beside the value. So a pointer
// to a wrong record causes an error, never a wrong answer. docs/format-values.md
// has the whole format.
//
// # The states of a file
//
//	writing    no footer. No reader opens it; a crash makes it an orphan.
//	sealed     ends with a footer. Read by a Reader, never changed again.
//	rewritten  sealed, with a remap. Same identity, another name, another salt.
//
//	writing --Finish--> sealed --Rewrite--> rewritten --Rewrite--> rewritten
//
// Only sealed files belong to a database.
//
// # Verification
//
// Open verifies header and footer. Mapping the file verifies the remap. The first access
// verifies a record; marks remember it. The reader does not trust a valid checksum. It also
// checks lengths against the size of the file, so that a hostile file causes an error and
// not a large allocation.
//
// # Concurrency
//
// A Reader is safe for concurrent use. One goroutine at a time may use a Writer, a
// Stream or a ValueReader.
package values
