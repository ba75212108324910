// Package collect gives back the space of values that no table refers to.
//
// A collection rewrites a value file under the same identity, so neither tables
// nor pointers change: one edit of the manifest exchanges the file. Nothing passes
// the write path, so no collection can bring a deleted key back.
//
// Collection and compaction go on side by side. A value that a collection has found live
// can only become garbage: a compaction keeps or drops references and makes none. No flush
// makes any either, because the collector leaves alone the files to which memtables refer.
// A value that becomes garbage after its copy counts as garbage of the new file.
package collect
