// Package rangedel holds range deletions (range tombstones): entries that hide
// all older versions of all keys from one key, inclusive, to another, exclusive.
//
// # The rule
//
// A range deletion with sequence number S hides the versions below S of the keys in its
// range. A version with the same number stays visible. Within one transaction, writes after
// the range deletion stay, and writes before it are dropped before the transaction commits.
// A snapshot older than S does not see the deletion.
//
//	key      a    b    c    d
//	set      1    1    1    1
//	delete        2----2            [b, d) at 2
//	set           2                 in the same transaction, afterwards
//	at 1     a1   b1   c1   d1
//	at 2     a1   b2        d1
//
// # Lists
//
// Ranges may overlap in any way. A List cuts them into fragments that do not
// overlap. The fragments are sorted, and each has the sequence numbers, newest
// first, of all deletions that cover it. So one binary search finds the
// deletions that cover a key.
//
// Nested deletions cut each other into fragments with many numbers: n deletions
// may need n²/2 of them. One example is a queue that is trimmed again and again
// from one fixed end. Tables avoid this, because Retain leaves a fragment one
// number for each snapshot. A memtable must answer for snapshots that it does
// not know. It keeps a History: many lists, a few of which answer for any one
// snapshot.
package rangedel
