// Package rangedel holds range deletions: entries that hide, at one stroke,
// all older versions of all keys from one key, inclusive, to another,
// exclusive.
//
// # The rule
//
// A range deletion with sequence number S hides the versions below S of the
// keys in its range. A version with the same number lives: within one
// transaction, what is set after the range was deleted stays, and what was set
// before is dropped before the transaction commits. A snapshot older than S
// does not see the deletion.
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
// Ranges overlap as they like. A List cuts them into fragments that do not:
// sorted, each with the sequence numbers, newest first, of all deletions that
// cover it. So one binary search answers what covers a key.
//
// Nested deletions cut each other into fragments with many numbers, n
// deletions into n²/2: think of a queue that is trimmed from one fixed end
// over and over. Tables do not suffer from that, as Retain leaves a fragment
// one number for each snapshot. A memtable, which has to answer for snapshots
// that it does not know, keeps a History: many lists, of which a few answer
// for any one snapshot.
package rangedel
