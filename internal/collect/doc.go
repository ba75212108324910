// Package collect gives back the space of values that no table refers to.
//
// A collection rewrites a value file under the same identity, so neither tables
// nor pointers change: one edit of the manifest exchanges the file. Nothing passes
// the write path, so no collection can bring a deleted key back.
//
// Collection and compaction go on side by side. What a collection finds to be live
// can only become less. A compaction takes references along or away. No flush adds
// any, because the collector leaves files alone to which memtables refer. What was copied
// and is garbage when the file is exchanged counts as garbage of the new one.
package collect
