// Package place writes values to value files. A flush separates some from their keys, a
// commit has large ones, and a caller streams others.
//
// Short values lie in tables, beside their keys. Longer ones lie in value files,
// in the order of the keys. So compaction merges keys and pointers, while the
// values stay where they are.
package place
