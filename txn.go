package stoat

import (
	"io"
	"iter"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/transaction"
)

// A Txn is a transaction. It reads a snapshot. In ReadWrite mode it also collects
// writes: Commit makes them visible in one step, and Discard drops them.
//
// A Txn is a small value, and copies of it are the same transaction. After the end
// of the transaction, the operations of each copy return ErrTxnDone. The
// operations of the zero Txn return it, too.
//
// A Txn reads and writes one keyspace. In returns the same transaction in another.
type Txn struct{ t transaction.Txn }

// Discard ends the transaction without writing anything. After Commit or another
// Discard it does nothing.
func (tx Txn) Discard() { tx.t.Discard() }

// Commit ends the transaction. It validates what the transaction read, and makes
// all its writes durable and visible, or none. A transaction without writes needs
// no validation and never conflicts.
//
// ErrConflict means that another transaction changed something that this
// transaction read. Commit has then written nothing.
//
// If a read failed because stored data could not be read, Commit returns the error of the
// first such read and writes nothing. So no commit follows from an incomplete loop.
// ErrNotFound and misuse, such as ErrEmptyKey, do not count.
//
// After any other error Commit has written nothing either, except after ErrFailed.
// After ErrFailed, the next Open may find the whole transaction or nothing of it.
func (tx Txn) Commit(opts ...CommitOption) error { return tx.t.Commit(durability(opts)) }

// CommitAsync is Commit without the wait for other commits and for the device. It
// ends the transaction for the caller. It calls done, which may be nil, exactly once:
// with the version of the writes and the error that Commit would have returned. The
// version is 0 if there is an error, and after a commit without writes.
//
// A transaction that begins before the call of done may not see the writes. If it reads
// these keys and writes, its commit returns ErrConflict.
//
// The call of done may come before CommitAsync returns, and never on the caller's
// goroutine. So the caller may hold a lock that done takes. done should be brief.
// It must not close the database, because Close waits for done. Callbacks of several
// commits may run at the same time, and in any order. A commit that fails does not stop
// later ones.
//
// Before it returns, CommitAsync looks for conflicts, which may read files. If the
// transaction has two megabytes of values of Options.LargeValueThreshold or more,
// CommitAsync writes these values to a file and makes the file durable.
//
// CommitAsync waits while the other commits of CommitAsync under way hold 64 MiB of memory.
// Each holds what it writes, the keys and ranges that it has read, and 6 KiB. CommitAsync
// waits for at most a second while the disk is nearly full. Before it writes large values, it
// waits as long as Commit does. A context of the transaction ends these waits with its error.
// Later, the context has no effect.
func (tx Txn) CommitAsync(done func(version uint64, err error), opts ...CommitOption) {
	tx.t.CommitAsync(done, durability(opts))
}

// ReadVersion returns the version of the snapshot that the transaction reads. It
// returns 0 after the end of a View.
func (tx Txn) ReadVersion() uint64 { return tx.t.ReadVersion() }

// CommitVersion returns the version of the transaction's writes after a successful
// Commit. It returns 0 before that, after a commit without writes, and after
// CommitAsync, which tells done the version.
func (tx Txn) CommitVersion() uint64 { return tx.t.CommitVersion() }

// Err returns the error that ended the last loop over All, Prefix, Range or Loop
// early, or nil. The next loop clears it. If several loops run at once, Err returns the
// first error of any. Once the transaction has ended, it returns ErrTxnDone.
func (tx Txn) Err() error { return tx.t.Err() }

// In returns the same transaction in the keyspace ks. The result reads and writes keys of
// ks. Its Commit, Discard and Err act on the whole transaction. A nil ks is the default
// keyspace.
//
// Once ks is dropped, all operations of later transactions return ErrNoKeyspace. A transaction
// that began before still reads the keyspace as it was. Its writes to the keyspace return
// ErrNoKeyspace, and so does its commit if it wrote there earlier.
func (tx Txn) In(ks *Keyspace) Txn { return Txn{tx.t.In(ks.inner())} }

// Get returns the value of key, or ErrNotFound. The value is valid until the
// transaction ends. The caller must not change it.
func (tx Txn) Get(key []byte) ([]byte, error) { return tx.t.Get(key) }

// GetCopy appends the value of key to dst and returns the result, or ErrNotFound. dst may be
// nil. After an error, the result is dst.
func (tx Txn) GetCopy(key, dst []byte) ([]byte, error) { return tx.t.GetCopy(key, dst) }

// GetItem returns the value of key with its metadata, or ErrNotFound.
func (tx Txn) GetItem(key []byte) (Item, error) {
	item, err := tx.t.GetItem(key)
	return Item{item}, err
}

// Has reports whether key has a value.
func (tx Txn) Has(key []byte) (bool, error) { return tx.t.Has(key) }

// GetMany appends the values of the keys to dst and returns the result. A key without a
// value gives nil, and a value of no bytes is not nil. The values are valid until the
// transaction ends. After an error, the result is dst.
//
// GetMany is faster than a Get for each key, because the waits for memory and for the
// disk overlap. The keys may come in any order.
func (tx Txn) GetMany(keys, dst [][]byte) ([][]byte, error) { return tx.t.GetMany(keys, dst) }

// Set gives key a value. It copies both, so the caller may reuse them at once. A nil value
// is a value of no bytes. Options of an earlier Set of the key do not carry over.
//
// Set returns ErrReadOnly in a read-only transaction. For a key or a value of a wrong length,
// it returns ErrEmptyKey, ErrKeyTooLarge or ErrValueTooLarge.
func (tx Txn) Set(key, value []byte, opts ...SetOption) error {
	return tx.t.Set(key, value, metadata(opts))
}

// SetReader gives key the value that r returns until its end, at most MaxValueSize
// bytes. It streams the value to a file instead of holding it in memory. If the
// transaction does not commit, stoat removes that file.
//
// SetReader suits values of many megabytes; Item.Reader reads them in the same way.
// SetReader keeps a value of less than two megabytes in memory, as Set does. That
// limit is lower if MemtableSize is small or the transaction already holds much.
func (tx Txn) SetReader(key []byte, r io.Reader, opts ...SetOption) error {
	return tx.t.SetReader(key, r, metadata(opts))
}

// Delete removes the value of key, if it has one.
func (tx Txn) Delete(key []byte) error { return tx.t.Delete(key) }

// DeleteRange removes the values of all keys from lo (inclusive) to hi (exclusive).
// A nil lo is the first key. A nil hi is no bound. A bound may have one byte more than
// MaxKeySize, so that a range can end behind the longest key. A longer one is ErrKeyTooLarge.
//
// DeleteRange takes the same short time for any number of keys, because it reads
// none of them. Writes of other transactions in the range are therefore no
// conflict; the later commit prevails. For a transaction that read a key of the
// range, present or absent, the deletion is a write of that key.
//
// DeleteRange removes what the transaction itself has set in the range before. What
// the transaction sets later stays. Open iterators ignore the deletion until the
// caller positions them again.
func (tx Txn) DeleteRange(lo, hi []byte) error { return tx.t.DeleteRange(lo, hi) }

// Iterator returns an iterator before its first entry. Err returns the error, if
// there is one.
func (tx Txn) Iterator(o IterOptions) Iterator {
	return Iterator{tx.t.Iterator(transaction.IterOptions(o))}
}

// All loops over all keys and their values in order. As for the other loops, a key
// is valid until the next iteration of the loop, a value until the transaction ends. An
// error ends the loop, and Err of the transaction returns it.
func (tx Txn) All() iter.Seq2[[]byte, []byte] { return tx.Loop(IterOptions{}) }

// Prefix loops over the keys that start with prefix, and their values. See All.
func (tx Txn) Prefix(prefix []byte) iter.Seq2[[]byte, []byte] {
	return tx.Loop(IterOptions{Prefix: prefix})
}

// Range loops over the keys from lo (inclusive) to hi (exclusive), and their
// values. nil is no bound. See All.
func (tx Txn) Range(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return tx.Loop(IterOptions{Lower: lo, Upper: hi})
}

// Loop loops over what an iterator with the options o shows: backward with Reverse, over
// keys without values with KeysOnly. See All.
func (tx Txn) Loop(o IterOptions) iter.Seq2[[]byte, []byte] {
	return tx.t.Loop(transaction.IterOptions(o))
}

// A SetOption adds metadata to one value.
type SetOption struct {
	expiry transaction.ExpiryKind // 0: the option is UserMeta
	value  int64
}

// TTL lets the value expire when d has passed, or at once if d is 0 or less. It
// rounds d up to whole milliseconds.
//
// A value that a reader found expired stays expired after a crash, even if the
// clock goes back. The first read that finds it expired may wait for a sync. This does not
// hold in a read-only database, after that sync has failed, or with less than 4 MiB of free
// disk.
func TTL(d time.Duration) SetOption { return SetOption{transaction.ExpiresAfter, int64(d)} }

// ExpiresAt lets the value expire at t. It rounds t up to whole milliseconds. A
// zero t means never, as it does for Item.ExpiresAt.
func ExpiresAt(t time.Time) SetOption {
	if t.IsZero() {
		return SetOption{transaction.ExpiresNever, 0}
	}
	return SetOption{transaction.ExpiresAt, base.ExpiryMs(t)}
}

// UserMeta attaches a byte to the value. Item.UserMeta returns the byte.
func UserMeta(b byte) SetOption { return SetOption{0, int64(b)} }

// metadata returns what the options of a Set say together.
func metadata(opts []SetOption) (m transaction.Metadata) {
	for _, o := range opts {
		if o.expiry == 0 {
			m.User, m.Named = byte(o.value), true
		} else {
			m.Expiry, m.Value = o.expiry, o.value
		}
	}
	return m
}

// A CommitOption changes one commit.
type CommitOption struct {
	durability Durability
	retries    int
	ofUpdate   bool // the option is Retries
}

// WithDurability makes a commit wait for d instead of Options.Durability. A d of 0
// means Options.Durability. With any other unknown d, the commit writes nothing and
// returns ErrInvalid.
func WithDurability(d Durability) CommitOption { return CommitOption{durability: d} }

// Retries lets Update and UpdateContext run their function again, in a new transaction,
// instead of returning ErrConflict: at most n times. The function must be safe to run
// several times. No other error leads to a retry. Other methods ignore the option when
// they commit. Default: 0.
//
// Updates that conflicted over the same keys take turns, in the order in which they came.
// Each waits for at most a second for the one before it. Other writers of the keys
// do not wait, and can make every run fail. After several conflicts, an update also pauses
// for up to 50 milliseconds.
//
// A function may read commits that are not on the device yet, and that no other
// transaction sees. Update returns once those commits are as durable as their callers
// asked for. If the device fails, Update returns ErrFailed, whatever the function
// returned. The function must not send what it read elsewhere: a power cut may still undo
// those commits.
func Retries(n int) CommitOption { return CommitOption{retries: n, ofUpdate: true} }

// durability returns what the options of a commit say together. An unknown durability
// stays, so that the commit refuses it.
func durability(opts []CommitOption) (d transaction.Durability) {
	for _, o := range opts {
		if !o.ofUpdate && d <= transaction.Durability(Buffered) {
			d = transaction.Durability(o.durability)
		}
	}
	return d
}

// retries returns the number of retries that the options of an update say.
func retries(opts []CommitOption) (n int) {
	for _, o := range opts {
		if o.ofUpdate {
			n = o.retries
		}
	}
	return n
}
