// Package iter merges sorted sources of entries into the view of a snapshot.
//
// Merging interleaves the sources, newest version first. Visible drops what the snapshot
// does not see. This means versions committed later, versions hidden by newer ones, deleted
// and expired keys, and keys that range tombstones cover.
//
// Both work in rounds. In each round Merging lists references to the next
// entries, as many as it can before a source must decode more. Visible filters
// the references in one tight loop. Moving to the next entry is then a step in a
// list. Merging copies references only, calls a source once per batch, and
// allocates nothing per key.
package iter
