package manifest

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/filter"
)

// Levels is the number of levels of a version.
const Levels = 7

// A Table is the metadata of one table. It is immutable.
type Table struct {
	Num  base.FileNum
	Size int64
	// Salt equals the salt in the table's footer. It detects a file that was
	// replaced by another.
	Salt uint64

	// Level is the level of the table. In level 0, tables of different runs may
	// overlap. The tables of one flush share a Run, and everything in a higher
	// run is newer. Below level 0, Run is 0 and the tables of a level do not
	// overlap.
	Level int
	Run   uint64

	// Smallest and Largest bound the keys of the table, range tombstones
	// included. Both bounds are inclusive, unless LargestExclusive is set. Largest
	// is then the end of a range tombstone, base.EndOfKeys if it has no end.
	Smallest, Largest []byte
	LargestExclusive  bool

	SmallestSeq, LargestSeq base.SeqNum
	// SeqShift is added to each sequence number that the table's file stores. It is
	// the version of an ingest, whose tables were written before it was known.
	SeqShift base.SeqNum

	// Keys counts the distinct keys in the table. It is 0 if they are not counted.
	Keys uint64
	// Entries counts all versions of keys, without range tombstones. Deletions,
	// Expiring and Pointers count the entries of these kinds.
	Entries, Deletions, RangeDeletions, Expiring, Pointers uint64
	// Partials counts the partial entries; see base.Kind.Partial.
	Partials uint64
	// OldestExpiry and NewestExpiry bound the expiry times in Unix milliseconds.
	// They are 0 if nothing expires.
	OldestExpiry, NewestExpiry uint64
	// TenthOutdated and HalfOutdated are discard points of a keyspace with timestamps.
	// From there on, at least a tenth or a half of the entries can be dropped. They are 0
	// if there is no such point.
	TenthOutdated, HalfOutdated uint64
	// TenthExpired and HalfExpired are the times in Unix milliseconds from which on about a
	// tenth or a half of the entries have expired. They are 0 if fewer entries expire, and in
	// tables of older databases.
	TenthExpired, HalfExpired uint64
	// KeyBytes and ValueBytes are the total lengths of the keys and of the
	// values in the table, pointers included.
	KeyBytes, ValueBytes uint64
	// CreatedMs is a time in Unix milliseconds, not before the oldest tombstone
	// in the table was written. Compaction keeps it, so that every tombstone
	// is dropped some day.
	CreatedMs uint64
	// Values says how many bytes of which value files the table's pointers refer
	// to.
	Values ValueRefs
	// Jumps counts the pointers whose value file differs from that of the
	// previous pointer. A scan of the table changes files as often. It is 0 if
	// jumps are not counted.
	Jumps uint64

	// Filter covers the keys of all tables of a level 0 run that was made since
	// the database was opened. It is in memory only.
	Filter filter.Filter
}

// Referred returns the number of bytes of values that the table refers to.
func (t *Table) Referred() uint64 { return t.Values.bytes }

// StartsAfter reports whether all keys of t come after key.
func (t *Table) StartsAfter(key []byte) bool { return bytes.Compare(key, t.Smallest) < 0 }

// EndsBefore reports whether all keys of t come before key.
func (t *Table) EndsBefore(key []byte) bool {
	c := bytes.Compare(t.Largest, key)
	return c < 0 || c == 0 && t.LargestExclusive
}

// Contains reports whether key lies within the bounds of t.
func (t *Table) Contains(key []byte) bool { return !t.StartsAfter(key) && !t.EndsBefore(key) }

// Overlaps reports whether a key may lie in both t and u.
func (t *Table) Overlaps(u *Table) bool {
	return !t.EndsBefore(u.Smallest) && !u.EndsBefore(t.Smallest)
}

// A ValueFile is the metadata of one value file. It is immutable.
type ValueFile struct {
	// Num is the identity that pointers name. It stays when garbage collection
	// rewrites the file.
	Num base.FileNum
	// File is the number in the current file name: Num, or that of the latest
	// rewrite. A rewritten file starts with a map from the offsets in pointers
	// to offsets in the file.
	File base.FileNum
	Size int64
	Salt uint64
	// Values counts the values in the file, and Bytes the bytes they take in
	// it. Values that no table refers to are garbage.
	Values, Bytes uint64
	// ValueBytes is the total length of the values before compression; 0 if
	// unknown.
	ValueBytes uint64
	// FirstSeq and LastSeq bound the sequence numbers in the file.
	FirstSeq, LastSeq base.SeqNum
}
