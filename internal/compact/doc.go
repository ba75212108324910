// Package compact keeps the tree in shape: it decides what to merge, which
// versions of a key survive, and does the merging.
//
// # Decide purely, act plainly
//
// Pick looks at a version of the tree and says what is most worth doing, or
// that nothing is. It reads no file and no clock: the same version and shape
// give the same plan. Retain says which versions of a key somebody can still
// see. Run merges sources into new tables and touches nothing else. Its caller
// makes them live, and the old ones dead, by one edit of the manifest, so that
// a crash at any moment leaves either the old tables or the new ones.
//
// # The shape of the tree
//
// The last level holds nearly everything. The one above it may hold a tenth
// of that, the next a hundredth, as long as such a level is worth having: a
// level that would be smaller than level 0 may become only adds one more
// rewriting. So a small database is level 0 and the last level. The highest
// level in use is the base: level 0 goes there.
//
//	level 0   runs, newest first      a run is what one flush made
//	(empty)
//	base      1/10 of the last
//	last      the data
//
// Level 0 is emptied slice by slice. Flushes end their tables where tables of
// the base end (see CutsOfFlush), and so the runs of level 0 are cut in the
// same places: a slice through all of them meets few tables of the base. The
// slice with the most bytes of level 0 for the bytes of the base is next. As
// the deepest slices go first, what is merged at once is about twice what
// level 0 holds on average, which is what a rewriting costs less.
//
// # Termination
//
// A plan moves bytes down, or merges runs, or removes garbage that is known
// to be removable. What it makes is never a reason for itself, so picking
// comes to an end when writing does. The same holds for PickGathering: see there.
package compact
