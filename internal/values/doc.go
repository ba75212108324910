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
//	writing    no footer. A Writer appends; what it flushed is read by a Tail.
//	           What was synced survives a crash.
//	torn       left by a crash while writing: the records that the log refers
//	           to are whole, what follows may be anything. Recover keeps the
//	           former, cuts the latter, and hands back a Writer to seal the file.
//	sealed     ends with a footer. Read by a Reader, never changed again.
//	rewritten  sealed, with a remap. Same identity, another name, another salt.
//
//	writing --Finish--> sealed --Rewrite--> rewritten --Rewrite--> rewritten
//	   `--crash--> torn --Recover, Finish--> sealed
//
// A file that is torn is not continued: sequence numbers of commits that were
// lost are given again, and bytes of their first life must not be taken for
// the second.
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
// A Reader and a Tail may be used by any number of goroutines; a Writer, a
// Stream and a ValueReader by one at a time.
package values
