// Package log is the commit log: the transactions in commit order, on
// pre-written, recycled segments.
//
// # Segments
//
// A segment is a file of records (package record) of a fixed size, whose
// blocks were written before it is used, so that the sync of a commit has no
// metadata to write. Those of a segment of more than 256 KiB that is made while
// much is written between two syncs, or for one large record, are only reserved,
// if the system can do that. File names are physical (NNNNNN.log) and stay; the header
// says which logical segment number the file holds now. When a segment is no
// longer needed its file becomes free, and a later segment is made of it by a
// new header with a new salt. Segments start small and double up to a maximum,
// so that an idle database is small. A transaction larger than a segment gets
// a segment of its size.
//
// A segment's header is durable before anything refers to it. The last frame
// of a full segment names its successor (number, file, salt), and the full
// segment is synced before the successor receives its first frame: so a hole
// cannot arise, and a missing or broken successor is corruption.
//
// # Transactions
//
// A transaction is one record, all of it in one segment. It exists when its
// last frame verifies.
//
// # Marks
//
// How far a segment is durable is said by the frames that follow. So the last
// records of all have nobody to speak for them until the log is closed: Mark writes
// a frame for that when nobody commits any more. It is not synced; it says what was
// so before, and may be lost or torn without harm.
//
// # Spans
//
// What one opening of the database writes is a span: a chain of segments. The
// manifest names the first segment of each span that is still needed, before
// the first commit goes into it.
//
// # Recovery
//
// Recovery replays the spans and follows successors. It never appends to what
// it has read. The newest span is sealed: it is said to end at the last
// transaction that is proven to be on the device, because a later frame, or a
// segment that was begun after it, says so. What follows, read perhaps from
// the memory of the operating system only, is carried: written again at the
// front of the new span, and synced, before the manifest learns of the seal
// and of the new span in one edit. So nothing below a seal can go missing
// without being corruption, not even after a sync that failed; and the old
// tail stays as it is until the edit is durable.
//
// Carried frames bear the early mark. A segment that holds other frames, and
// that no span reaches although it is not older than all of them, proves that
// a reference to it was lost: that is corruption, never garbage.
//
// # Who may call what
//
// Reserve, Begin, Write, End, Flush and Shrink belong to the caller's commit
// mutex, and so does Mark. Sync may run beside them and beside another Sync. Release,
// Rest, Hold, Proven and Stats may be called at any time, Rest and Stats also after
// Close.
//
//	building --Flush--> flushed --Sync--> durable
//	any state --failed write or sync--> poisoned (every call returns the error)
package log
