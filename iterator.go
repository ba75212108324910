package stoat

import "github.com/stoatdb/stoat/internal/transaction"

// IterOptions choose what an iterator shows.
type IterOptions struct {
	// Lower (inclusive) and Upper (exclusive) bound the keys. nil is no bound.
	// Prefix restricts further to keys that start with it.
	Lower, Upper, Prefix []byte
	// Reverse iterates from the last key to the first.
	Reverse bool
	// KeysOnly shows no values: Value returns nil. The iterator reads values only of keys
	// with operands that are not merged yet, and may then end with the errors of a merge.
	KeysOnly bool
	// AllVersions shows every kept version of every key, including tombstones and
	// expired values. Versions of a key come newest first, and oldest first with
	// Reverse.
	//
	// The iterator ignores deletions by DeleteRange, DropPrefix and DropAll: it
	// shows what they deleted and is still kept, and does not show the deletions.
	//
	// Background jobs drop versions that no snapshot sees: versions beyond
	// Options.NumVersions, and versions that a range deletion hides. They drop a
	// tombstone when it no longer hides anything.
	AllVersions bool
	// Since limits the iterator to versions greater than Since: the writes of later
	// transactions. Without AllVersions, the iterator leaves out deleted keys. With
	// AllVersions, it shows the deletions that are still kept. DB.Subscribe shows all of them.
	// Since is a version of this database: a restored database gives the versions after its
	// backup to other commits than the original.
	//
	// The iterator skips tables without newer versions, so it finds recent writes fast.
	// Later, compactions mix them with older data.
	Since uint64
	// Prefetch is how many upcoming values the iterator fetches from the disk
	// together, if they lie in value files and are not in memory yet. Default: 32.
	// Maximum: 64; a greater number means 64. A negative number fetches values one
	// by one.
	Prefetch int
}

// An Iterator walks over the keys of a transaction's snapshot. It includes the
// transaction's own writes as of the last First, Last or Seek. One goroutine at a
// time may use it. The caller must close it; the end of the transaction closes it too.
//
// A key is valid until the iterator moves, a value until the transaction ends.
//
// Next and Prev may follow each other in any order. A change of direction costs about
// as much as Seek; with AllVersions, it also passes versions of the current key. After Next has
// passed the last entry, Prev moves to the last entry, and likewise at the other end. So Prev
// after Seek moves to the last entry before the sought key, even if Seek found none.
//
// An Iterator is a small value, and copies of it are the same iterator. A closed
// iterator has no entries, and its Err returns ErrTxnDone. So does the zero Iterator.
type Iterator struct{ it transaction.Iterator }

// First moves to the first entry in the direction of iteration. It reports whether
// there is one.
func (it Iterator) First() bool { return it.it.First() }

// Last moves to the last entry in the direction of iteration. It reports whether there
// is one.
func (it Iterator) Last() bool { return it.it.Last() }

// Seek moves to the first entry with a key >= key. With Reverse it moves to the
// last entry with a key <= key. It reports whether there is one.
func (it Iterator) Seek(key []byte) bool { return it.it.Seek(key) }

// Next moves to the next entry. If the iterator has no position yet, Next moves to
// the first entry. It reports whether there is one.
func (it Iterator) Next() bool { return it.it.Next() }

// Prev moves to the previous entry in the direction of iteration. If the iterator has no
// position yet, Prev moves to the last entry. It reports whether there is one.
func (it Iterator) Prev() bool { return it.it.Prev() }

// Valid reports whether the iterator is at an entry.
func (it Iterator) Valid() bool { return it.it.Valid() }

// Key returns the key, which is valid until the iterator moves. It returns nil when
// the iterator is not at an entry.
func (it Iterator) Key() []byte { return it.it.Key() }

// Value returns the value, which is valid until the transaction ends. It returns
// nil when the iterator is not at an entry, and with KeysOnly. If the value cannot
// be read, Value returns nil, the iteration ends, and Err returns the error.
func (it Iterator) Value() []byte { return it.it.Value() }

// Item returns the entry with its metadata. It returns the zero Item when the
// iterator is not at an entry.
func (it Iterator) Item() Item { return Item{it.it.Item()} }

// Err returns the error that ended the iteration, if there is one. The caller checks it
// when Valid reports false. Once the iterator is closed, Err returns ErrTxnDone; Close
// itself returns the error of the iteration.
func (it Iterator) Err() error { return it.it.Err() }

// Close closes the iterator. It returns the error that ended the iteration, if there
// is one. Later calls return what Err returns. The end of the transaction also closes
// its iterators.
func (it Iterator) Close() error { return it.it.Close() }
