// Package manifest keeps the state of the database that is not data: its
// identity, which log segments to replay, and which tables and value files are
// live. The state is the fold of edits. An edit is durable
// before Append returns, and a failed append poisons the manifest: no file may
// be deleted any more.
//
// # Files
//
// A manifest is a file of records (package record), MANIFEST-NNNNNN. Its first
// record is the whole state, as one edit of the empty state; each record after
// it is an edit. The file is written to its full, fixed size before it is
// used, so that an append has no metadata to sync. When an edit does not fit,
// a new file with the next number takes over.
//
// After each edit behind the snapshot is synced, a Mark frame says so. Thus an edit
// that was once durable and no longer verifies is corruption and not a torn tail.
//
// # Taking over
//
// A new file is written and synced under the name MANIFEST-NNNNNN.tmp, then
// renamed, then the directory is synced; only then is anything appended, and
// the old file removed. So a file with the final name is always complete, a
// broken one is corrupt, and the one with the highest number is the manifest,
// whether or not older ones are still or again there.
//
// A file whose end is not proven to be durable, because its writer died before
// the mark, is taken over by a new one when it is loaded: nothing is ever
// appended behind a torn tail, nor into a file whose name a power cut may take
// away.
//
// Loading believes nothing that cannot be: numbers and sizes have bounds, and so
// has the file, by the size of its snapshot.
//
// # The tree
//
// A Version is the tables by level, and the value files with the bytes in each
// that tables refer to. It is immutable: readers hold one while edits make the
// next, which shares with it what they do not change. A draft is a version
// between the two; it checks an edit against what is there, so that no version
// has tables that overlap where they must not, or pointers into a value file
// that is gone.
//
// The manifest knows files as metadata and opens none but its own.
package manifest
