// Package compact keeps the tree in shape: it picks compactions, decides which
// versions of a key survive, and merges.
//
// # Decide purely, act plainly
//
// Pick returns the most useful plan for a version of the tree, or none. It
// reads no file and no clock: the same version and shape give the same plan. Retain
// says which versions of a key a reader can still see. Run merges sources into new
// tables and changes nothing else. Its caller makes the new tables live, and the old
// ones obsolete, by one manifest edit. So a crash at any moment leaves either the old
// tables or the new ones.
//
// # The shape of the tree
//
// The last level holds most of the data. The highest level in use below level 0 is the
// base: level 0 is compacted into it. With the default options, there are two shapes:
//
//   - Up to 8 GiB the base is the last level. Level 0 may hold 256 MiB, or a third of the
//     last level if that is more.
//   - A larger database has levels in between, and its level 0 may hold 256 MiB. The level
//     above the last may hold a tenth of it, the next a hundredth. A level smaller than
//     level 0 would only add one more rewrite.
//
// This is the second shape:
//
//	level 0   runs, newest first      one flush makes one run
//	(empty)
//	base      1/10 of the last
//	last      the data
//
// Level 0 is emptied slice by slice. Flushes end their tables where tables of the base
// end (see CutsOfFlush). So all runs of level 0 are cut in the same places, and a slice
// through all of them overlaps few tables of the base. The next slice is the one with
// the most bytes of level 0 per byte of the base. The deepest slices go first, so one
// merge takes about twice the average share of level 0. That lowers the cost of
// rewriting the base.
//
// A level 0 of more than 256 MiB is wide. Whenever eight small runs have gathered there,
// they are merged into one run of up to 256 MiB. Such a run has a table for each table of
// the base, so slices stay narrow, and a read searches few runs.
//
// Level 0 is also emptied if it has thousands of small tables, as drops of a few keys leave
// them. Narrow runs are also merged if there are many beside each other.
//
// # Termination
//
// A plan moves bytes down, merges runs, or removes garbage that is known to be
// removable. Its output is never a reason for another plan. So picking ends when
// writing ends. The same holds for PickGathering: see there.
package compact
