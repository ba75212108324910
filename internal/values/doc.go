// Package values stores values apart from their keys, in files that tables
// point into, and collects the garbage of those files.
//
// # The file
//
// A value file is a header, records one behind the other, and a footer; a file
// that collection rewrote has a remap between records and footer.
//
//	header   40 bytes, see fileHeader
//	records  see header: lengths, key, version and checksum beside each value
//	remap    see remap; only in a rewritten file
//	footer   120 bytes, see footer
//
// A Pointer names a record by the identity of the file and the offset at which
// the record was written first. Key and version lie beside the value, so that
// a pointer that leads elsewhere is an error and never a wrong answer.
// docs/format-values.md has it all in one place.
//
// # The states of a file
//
//	writing    no footer. Nobody reads it; a crash makes it an orphan.
//	sealed     ends with a footer. Read by a Reader, never changed again.
//	rewritten  sealed, with a remap. Same identity, another name, another salt.
//
//	writing --Finish--> sealed --Rewrite--> rewritten --Rewrite--> rewritten
//
// Only sealed files are ever a part of a database.
//
// # What is verified when
//
// Header and footer when the file is opened, the remap when it is mapped, a
// record when it is first touched; a table of marks remembers. Behind a
// checksum that fits, lengths are still held against the file, so that a
// hostile file costs an error and not memory.
//
// # Concurrency
//
// A Reader may be used by any number of goroutines; a Writer, a Stream and a
// ValueReader by one at a time.
package values
