// Package manifest keeps the state of the database that is not data: its
// identity, which log segments to replay, and (with the tree) which tables
// and value files are live. It is a file of checksummed, chained edits; the
// state is the fold of the edits. An edit is durable before Append returns,
// and a failed append poisons the manifest: no file may be deleted any more.
//
// The manifest knows files as metadata and opens none but its own.
package manifest
