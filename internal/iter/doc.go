// Package iter merges sorted sources of entries into the view that a snapshot
// has of them.
//
// Merging interleaves the sources, newest version first. Visible drops what a
// snapshot does not see: versions committed later, versions hidden by newer
// ones, deleted and expired keys, and what range deletions cover.
//
// Both work in rounds. In one round Merging names the next entries, at most as
// many as it can before some source has to decode more; Visible goes through
// the names in one tight loop and keeps those that the snapshot sees. Moving
// to the next entry is then a step in a list. Nothing is copied but names, a
// source is called once per batch, and nothing is allocated per key.
package iter
