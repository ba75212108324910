package manifest

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/filter"
)

// Levels is how many levels a version has.
const Levels = 7

// A Table is what the manifest knows of one table. It is immutable.
type Table struct {
	Num  base.FileNum
	Size int64
	// Salt is the one in the table's footer: a file that took the place of
	// another is told by it.
	Salt uint64

	// Level is where the table is. In level 0 tables of different runs
	// overlap: those that one flush made share a Run, and a higher run is
	// newer in all it holds. Below level 0 the run is 0 and no two tables of a
	// level overlap.
	Level int
	Run   uint64

	// Smallest and Largest bound the keys of the table, range deletions
	// included. Both belong to it, unless LargestExclusive says that keys only
	// come near to Largest: it is then the end of a range deletion,
	// base.EndOfKeys of one without an end.
	Smallest, Largest []byte
	LargestExclusive  bool

	SmallestSeq, LargestSeq base.SeqNum

	// Keys counts the keys that have versions in the table; 0 also when nobody
	// counted.
	Keys uint64
	// Entries counts all versions of keys, range deletions excluded;
	// Deletions, Expiring and Pointers count entries of these kinds.
	Entries, Deletions, RangeDeletions, Expiring, Pointers uint64
	// OldestExpiry and NewestExpiry bound the moments of expiry in Unix
	// milliseconds; 0 when nothing expires.
	OldestExpiry, NewestExpiry uint64
	// KeyBytes and ValueBytes are the lengths of the keys and of the values
	// that are in the table, pointers included.
	KeyBytes, ValueBytes uint64
	// CreatedMs is when the oldest deletion in the table was written at the
	// latest, in Unix milliseconds: compaction carries it over, so that no
	// deletion stays for ever.
	CreatedMs uint64
	// Values tells how many bytes of which value files the pointers of the
	// table refer to, ascending by file.
	Values []ValueRef
	// Jumps counts the pointers that lead to another value file than the pointer
	// before: what a walk through the table has to jump for. 0 also when nobody
	// counted.
	Jumps uint64

	// Filter is of the keys of all tables of a run of level 0 that was made since
	// the database was opened. It is in memory only.
	Filter filter.Filter
}

// Referred returns how many bytes of values the table refers to.
func (t *Table) Referred() uint64 {
	sum := uint64(0)
	for _, r := range t.Values {
		sum += r.Bytes
	}
	return sum
}

// A ValueRef is the part of a value file that a table keeps alive.
type ValueRef struct {
	File  base.FileNum
	Bytes uint64
}

// StartsAfter reports whether all keys of t come after key.
func (t *Table) StartsAfter(key []byte) bool { return bytes.Compare(key, t.Smallest) < 0 }

// EndsBefore reports whether all keys of t come before key.
func (t *Table) EndsBefore(key []byte) bool {
	c := bytes.Compare(t.Largest, key)
	return c < 0 || c == 0 && t.LargestExclusive
}

// Contains reports whether key lies within the bounds of t.
func (t *Table) Contains(key []byte) bool { return !t.StartsAfter(key) && !t.EndsBefore(key) }

// Overlaps reports whether some key may lie in both t and u.
func (t *Table) Overlaps(u *Table) bool {
	return !t.EndsBefore(u.Smallest) && !u.EndsBefore(t.Smallest)
}

// A ValueFile is what the manifest knows of one value file. It is immutable.
type ValueFile struct {
	// Num is the identity: what pointers name. It stays when collection
	// rewrites the file.
	Num base.FileNum
	// File is the number in the name of the file that holds it now: Num, or
	// that of the latest rewriting, which begins with a map from the offsets
	// in pointers to offsets in the file.
	File base.FileNum
	Size int64
	Salt uint64
	// Values and Bytes count the values that the file holds and what they
	// take in it. What tables do not refer to is garbage.
	Values, Bytes uint64
	// ValueBytes is the sum of the lengths of the values, before compression; 0
	// when nobody noted it.
	ValueBytes uint64
	// FirstSeq and LastSeq bound the versions in the file.
	FirstSeq, LastSeq base.SeqNum
}
