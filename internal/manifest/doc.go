// Package manifest keeps the metadata of the database: its identity, the log
// segments to replay, and the live tables and value files. The state is the fold
// of manifest edits. An edit is durable before Append returns. A failed
// append poisons the manifest: after it, no file may be deleted.
//
// # Files
//
// A manifest is a file of records (package record), MANIFEST-NNNNNN. Its first
// record is the snapshot: the whole state, as one edit of the empty state. Each
// later record is an edit. The file is written to its full, fixed size before
// its first use, so that an append syncs no metadata. When an edit does not
// fit, a new file with the next number takes over.
//
// After each edit behind the snapshot is synced, a Mark frame says so. So an
// edit that was once durable and no longer verifies is corruption, not a torn
// tail.
//
// # Taking over
//
// The store writes and syncs a new file under the name MANIFEST-NNNNNN.tmp, then
// renames it, then syncs the directory. Only then does it append to the new file
// and remove the old one. So a file with the final name is always complete, and
// a broken one is corrupt. The file with the highest number is the manifest,
// even if older ones remain or reappear.
//
// A crash before the mark leaves a file whose end is not proven to be durable.
// Load replaces it by a new file. So the store never appends behind a torn
// tail, nor to a file whose name a power cut may remove. The marks themselves may
// be missing on the device, so the first append after Load writes them again.
//
// If the sync of the directory fails, an empty file MANIFEST-NNNNNN.tmp says so. The next
// sync may succeed without making the name durable. So only a new file may follow: Load
// fails on a disk without room for it.
//
// Load checks every value it reads: numbers and sizes have bounds, and the size
// of its snapshot bounds the size of the file.
//
// # The tree
//
// A Version holds the tables by level, and the value files with the bytes in
// each that tables refer to. It is immutable: readers hold one while edits make
// the next, which shares the unchanged parts. A draft is a version in progress.
// It checks each edit. So no version has tables that overlap where they must
// not, or pointers into a dropped value file.
//
// # Keyspaces and features
//
// The state also holds the table of keyspaces with their settings (keyspace.go,
// settings.go), and the features of the database (feature.go). Load refuses what
// a reader must know and this version does not. What it may ignore it keeps, and
// writes back (unknown.go).
//
// The manifest knows files as metadata. It opens no file but its own.
package manifest
