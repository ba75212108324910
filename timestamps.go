package stoat

import (
	"io"
	"iter"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/transaction"
)

// Timestamps says how a keyspace treats the timestamps that the caller chooses. See
// Txn.At.
type Timestamps uint8

const (
	// TimestampsChecked: a transaction conflicts if another commit changes what it
	// read at a timestamp.
	TimestampsChecked Timestamps = manifest.TimestampsChecked
	// TimestampsUnchecked: reads at a timestamp never conflict. The caller has its own
	// checks, or needs none.
	TimestampsUnchecked Timestamps = manifest.TimestampsUnchecked
)

// A TimedTxn is a transaction in a keyspace with timestamps, at one timestamp. Txn.At
// makes it. Reads find the latest version of each key that is not after the
// timestamp. Writes make versions at the timestamp.
//
// A TimedTxn is a small value, and belongs to the transaction that it was made of.
// Commit, Discard and Err act on that transaction.
type TimedTxn struct{ t transaction.TimedTxn }

// At returns the transaction at a timestamp. The keyspace of tx must have been created
// with KeyspaceOptions.Timestamps. Otherwise all operations of the result return
// ErrInvalid. So do reads and writes in a keyspace with timestamps without At.
//
// A timestamp is any number of the caller's. Versions may arrive in any order, and one
// transaction may read and write at any number of timestamps. All its writes become
// visible in one step, as those in other keyspaces. A second write of a key at the same
// timestamp replaces the first.
//
// Item.Version and ReadVersion remain the versions of transactions, which grow with
// each commit. A reader sees the versions whose transactions its own snapshot
// includes.
//
// Operations at a timestamp below Keyspace.DiscardedBelow return ErrTimestampDiscarded,
// except PurgeRange, which only deletes.
func (tx Txn) At(timestamp uint64) TimedTxn { return TimedTxn{tx.t.At(timestamp)} }

// Timestamp returns the timestamp that At was given.
func (t TimedTxn) Timestamp() uint64 { return t.t.Timestamp() }

// Get returns the value that key has at the timestamp, or ErrNotFound. The value is
// valid until the transaction ends.
func (t TimedTxn) Get(key []byte) ([]byte, error) { return t.t.Get(key) }

// GetCopy appends the value that key has at the timestamp to dst and returns the
// result, or ErrNotFound.
func (t TimedTxn) GetCopy(key, dst []byte) ([]byte, error) { return t.t.GetCopy(key, dst) }

// GetItem returns the version that key has at the timestamp, or ErrNotFound.
// Item.Timestamp tells the timestamp of the version.
func (t TimedTxn) GetItem(key []byte) (Item, error) {
	item, err := t.t.GetItem(key)
	return Item{item}, err
}

// Has reports whether key has a value at the timestamp.
func (t TimedTxn) Has(key []byte) (bool, error) { return t.t.Has(key) }

// Set gives key a value from the timestamp on, up to the next version. It copies key
// and value. A key takes 10 bytes more than in other keyspaces, and one more for each
// of its zero bytes. With these it may have MaxKeySize bytes.
//
// A value with a time to live hides earlier versions even after it has expired. The key
// then has no value from the timestamp on, up to the next version.
func (t TimedTxn) Set(key, value []byte, opts ...SetOption) error {
	return t.t.Set(key, value, metadata(opts))
}

// SetReader is Txn.SetReader at the timestamp.
func (t TimedTxn) SetReader(key []byte, r io.Reader, opts ...SetOption) error {
	return t.t.SetReader(key, r, metadata(opts))
}

// Delete takes the value of key away from the timestamp on, up to the next version.
// Reads at earlier timestamps still find it. So Delete adds a version, and a full disk
// refuses it with ErrNoSpace. PurgeRange goes on.
func (t TimedTxn) Delete(key []byte) error { return t.t.Delete(key) }

// PurgeRange removes all versions of all keys from lo (inclusive) to hi (exclusive), at
// all timestamps. nil is no bound. A bound that is longer than a key may be is
// ErrKeyTooLarge. Apart from that it is like Txn.DeleteRange. No
// method deletes a range of keys at a timestamp: that takes a version of each key.
func (t TimedTxn) PurgeRange(lo, hi []byte) error { return t.t.PurgeRange(lo, hi) }

// Iterator returns an iterator before its first entry. Err returns the error, if
// there is one.
func (t TimedTxn) Iterator(o IterOptions) TimedIterator {
	return TimedIterator{t.t.Iterator(transaction.IterOptions(o))}
}

// All loops over all keys and their values at the timestamp, in order. As for the
// other loops, a key is valid until the next turn of the loop, a value until the
// transaction ends. An error ends the loop, and Err of the transaction returns it.
func (t TimedTxn) All() iter.Seq2[[]byte, []byte] { return t.Loop(IterOptions{}) }

// Prefix loops over the keys that start with prefix, and their values. See All.
func (t TimedTxn) Prefix(prefix []byte) iter.Seq2[[]byte, []byte] {
	return t.Loop(IterOptions{Prefix: prefix})
}

// Range loops over the keys from lo (inclusive) to hi (exclusive), and their values. nil
// is no bound. See All.
func (t TimedTxn) Range(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return t.Loop(IterOptions{Lower: lo, Upper: hi})
}

// Loop loops over what an iterator with the options o shows: backward with Reverse, over
// keys without values with KeysOnly. See All.
func (t TimedTxn) Loop(o IterOptions) iter.Seq2[[]byte, []byte] {
	return t.t.Loop(transaction.IterOptions(o))
}

// A TimedIterator walks over the keys of a keyspace with timestamps, at one timestamp.
// It shows the version that each key has at the timestamp. Apart from that it is like
// an Iterator.
//
// With IterOptions.AllVersions, it shows every version that is not after the timestamp,
// with deletions and expired values. Versions of a key come with descending
// timestamps, and with ascending ones with Reverse. Item.Timestamp tells the timestamp.
// With IterOptions.Since, it shows only what later transactions wrote, at any timestamp.
// Since needs AllVersions.
type TimedIterator struct{ it transaction.TimedIterator }

// First moves to the first entry in the direction of iteration. It reports whether
// there is one.
func (it TimedIterator) First() bool { return it.it.First() }

// Last moves to the last entry in the direction of iteration. It reports whether there
// is one.
func (it TimedIterator) Last() bool { return it.it.Last() }

// Seek moves to the first entry with a key >= key. With Reverse it moves to the last
// entry with a key <= key. It reports whether there is one.
func (it TimedIterator) Seek(key []byte) bool { return it.it.Seek(key) }

// Next moves to the next entry. If the iterator has no position yet, Next moves to the
// first entry. It reports whether there is one.
func (it TimedIterator) Next() bool { return it.it.Next() }

// Prev moves to the previous entry in the direction of iteration. If the iterator has no
// position yet, Prev moves to the last entry. It reports whether there is one.
func (it TimedIterator) Prev() bool { return it.it.Prev() }

// Valid reports whether the iterator is at an entry.
func (it TimedIterator) Valid() bool { return it.it.Valid() }

// Key returns the key, which is valid until the iterator moves. It returns nil when the
// iterator is not at an entry.
func (it TimedIterator) Key() []byte { return it.it.Key() }

// Value returns the value, which is valid until the transaction ends. It returns nil
// when the iterator is not at an entry, for deletions, and with KeysOnly. If the value
// cannot be read, Value returns nil, the iteration ends, and Err returns the error.
func (it TimedIterator) Value() []byte { return it.it.Value() }

// Item returns the version with its metadata. It returns the zero Item when the
// iterator is not at an entry.
func (it TimedIterator) Item() Item { return Item{it.it.Item()} }

// Err returns the error that ended the iteration, if there is one. The caller checks it
// when Valid reports false. Without such an error, Err returns ErrTxnDone once the
// iterator is closed.
func (it TimedIterator) Err() error { return it.it.Err() }

// Close closes the iterator. It returns the error that ended the iteration, if there is
// one. The end of the transaction also closes its iterators.
func (it TimedIterator) Close() error { return it.it.Close() }

// DiscardBelow says that no reader will read at a timestamp below the given one. Later
// reads and writes below it, and commits of versions below it, return
// ErrTimestampDiscarded. Transactions that began to iterate before go on.
//
// Compactions to the last level then drop the versions that no reader can find. They keep
// all versions after the timestamp. Of the other versions they keep the latest of each key,
// unless it is a deletion or has expired. Compact without Keyspace and bounds frees all of
// that space at once.
//
// The timestamp is durable when DiscardBelow returns, and so are all earlier commits. A
// timestamp below an earlier one changes nothing.
//
// In a keyspace without timestamps the error is ErrInvalid, in a read-only database
// ErrReadOnly, and in a dropped keyspace ErrNoKeyspace.
func (k *Keyspace) DiscardBelow(timestamp uint64) error {
	if !k.k.Timed() {
		return transaction.ErrNoTimestamps
	}
	if k.db.opts.ReadOnly {
		return ErrReadOnly
	}
	return k.db.engine.Spaces.DiscardBelow(k.k.Handle(), timestamp)
}

// DiscardedBelow returns the greatest timestamp that DiscardBelow was given, or 0.
func (k *Keyspace) DiscardedBelow() uint64 {
	if !k.k.Timed() {
		return 0
	}
	return k.k.Handle().Gate.Floor()
}
