// Package space keeps a reserve of the disk free, so that space can be given
// back when the disk is full.
//
// Giving space back begins with writing. A flush writes tables before the log can go, and a
// merge writes tables before it drops others. A collection copies live values before it
// deletes their file. On a disk without a free byte none of them succeeds, and neither does
// deleting, which needs the log. So transactions that add anything are refused while there
// is still room for all of these:
//
//	free |<- may be added ->|<- reserve: log of deletions, flush, merge, copy ->|
//
// Delete-only transactions are never refused for lack of it. While the disk is
// low, background jobs do everything that an idle database would do.
//
// The reserve learns what it needs by values, and wakes workers by functions. It
// calls nothing that takes a lock of another package.
package space
