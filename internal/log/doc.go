// Package log is the commit log: the transactions in commit order, on
// pre-written, recycled segments.
//
// # Segments
//
// A segment is a file of fixed size whose blocks were written before it is
// used, so that a sync of a commit has no metadata to write. File names are
// physical (NNNNNN.log) and stay; the header says which logical segment
// number the file holds now. When a segment is no longer needed it becomes
// free, and the next one is made of it by a new header with a new salt.
// Segments start small and double up to a maximum, so that an idle database
// is small. A transaction larger than a segment gets a segment of its size.
//
// A segment's header is durable before anything refers to it. The last frame
// of a full segment names its successor (number, file, salt), and the full
// segment is synced before the successor receives its first frame: so a hole
// can not arise, and a missing or broken successor is corruption.
//
// # Transactions
//
// A transaction is one record: a frame, or, when it is larger than a frame
// may be, a first, middle and last frames, all in one segment. It exists when
// its last frame verifies.
//
// # Recovery
//
// Recovery starts at the segment the manifest names and follows successors.
// It never appends to what it has read: the manifest records where the old
// log ended (the seal), and a new segment starts. A later recovery knows from
// the seal that what follows it is a torn tail, and that anything missing
// before it is corruption.
package log
