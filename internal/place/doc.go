// Package place writes values to value files: those that a flush separates from
// their keys, the large ones of a commit, and those that a caller streams.
//
// Short values lie in tables, beside their keys. Longer ones lie in value files,
// in the order of the keys. So compaction merges keys and pointers, while the
// values stay where they are.
package place
