// Package iter merges sorted sources of entries into the view that a snapshot
// has of them.
//
// Merging interleaves the sources, newest version first. Visible drops what a
// snapshot does not see: versions committed later, versions hidden by newer
// ones, deleted and expired keys. Both work on batches of entries, call a
// source once per batch and allocate nothing per key.
package iter
