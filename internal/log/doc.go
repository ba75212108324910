// Package log is the write-ahead log: it holds the transactions in commit
// order, in pre-written, recycled segments.
//
// # Segments
//
// A segment is a file of records (package record) of fixed size. The writer writes all its
// blocks before its first use. So syncing a commit writes no metadata. For two kinds of
// segment, the writer only reserves the blocks, if the system can. One kind serves a record
// larger than SegmentSizeMax. The other is above 256 KiB, and prepared while syncs are large.
//
// A file name (NNNNNN.log) is physical and stays. The header says which
// logical segment number the file holds now. When no reader or recovery needs a
// segment any more, its file becomes free. A later segment reuses the file with a new
// header and a new salt. Segments start small and double up to a maximum, so
// that an idle database is small. They stay small where the disk has no room for larger
// ones. A transaction larger than a segment gets a segment of its size.
//
// A segment's header is durable before anything refers to it. The last frame
// of a full segment names its successor (number, file, salt). The writer then goes
// on in the successor, while a background job syncs the full segment. Until the job
// has ended, frames of the successor have a durable field of 0. A sync of a commit
// waits for the full segments before. So commits that are not synced do not wait
// for the device, and the durable part of the log has no holes.
//
// A frame with a durable field above 0 proves the segments before its own. If
// anything of them is missing or broken, that is corruption.
//
// # Transactions
//
// A transaction is one record, all of it in one segment. It exists when its
// last frame verifies.
//
// # Marks
//
// Each frame says how far its segment was durable before it. So only the next commit,
// or Close, would record that the last records are durable. Mark writes a frame that
// does so when commits pause. The mark is not synced. It states what was already true,
// so losing or tearing it does no harm.
//
// # Small writes
//
// Where commits do not wait for syncs, the writer announces its writes with
// vfs.File.WillWrite. The file system may then take them without system calls.
//
// # Spans
//
// A span is the chain of segments that one opening of the database writes. The
// manifest names the first segment of each span that is still needed, before
// the first commit goes into it.
//
// # Recovery
//
// Recovery replays the spans and follows successors. It never appends to what it has read.
// Recovery seals the newest span: the span then ends at the last transaction proven to be
// on the device. The proof is a later frame. Recovery carries the records behind the seal, in
// one segment or several. It may have read them only from the operating system's memory.
// Create writes them again at the front of the new span and syncs them. Then one manifest
// edit records the seal and the new span. So a loss below a seal is always
// corruption, even after a failed sync. The old tail stays unchanged until the edit is
// durable.
//
// Carried frames bear the early mark. A segment with other frames may have one with a durable
// field above 0. That is corruption when no span reaches the segment and it is not older than
// all spans. Then a reference to it was lost. Recovery never treats it as free.
//
// # Concurrency
//
// The caller's commit mutex guards Reserve, Begin, Write, End, Flush, Place, Shrink
// and Mark. Sync may run beside them and beside another Sync. Release, Trim,
// Hold, Proven and Stats may be called at any time, Trim and Stats even after
// Close.
//
//	building --Flush--> flushed --Sync--> durable
//	any state --failed write or sync--> poisoned (every call returns the error)
package log
