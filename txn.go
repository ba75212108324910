package stoat

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/state"
)

// A Txn is a transaction. It reads a snapshot. In ReadWrite mode it also collects
// writes: Commit makes them visible in one step, and Discard drops them.
//
// A Txn value is never reused. After its end, its operations return
// ErrTxnDone.
type Txn struct {
	// A View needs only a Txn of its own, 48 bytes. The rest of the transaction is the
	// txnState in the slot, which successive Views reuse.
	db     *DB
	state  *txnState
	view   *state.View   // nil once the transaction has ended
	seq    base.SeqNum   // of the snapshot
	now    atomic.Uint64 // milliseconds of Unix time, or 0; see nowMs
	status atomic.Uint32 // txnOpen, txnLending or txnEnded
}

// The status of a transaction only grows.
const (
	txnOpen    = iota // has lent nothing
	txnLending        // has opened an iterator, begun a loop, or lent a copy
	txnEnded
)

// A txnState is the part of a transaction beside its Txn. A transaction of Begin
// has its own. Successive Views with one slot share the txnState of the slot, so
// only a transaction that has not ended may use it.
type txnState struct {
	slot      *state.Slot // released by end; nil in a View, which releases its slot itself
	ctx       context.Context
	writes    *commit.WriteSet // nil in a read-only transaction
	commitSeq base.SeqNum
	decoded   codec.Arena // memory of decompressed values

	// Txns and Iterators of later Views. Each serves one View for good. They are
	// allocated in groups, because an allocation costs half of an empty View.
	spareTxns []Txn
	spare     []Iterator // guarded by open

	open openState
}

// handlesEach is how many Txns or Iterators of Views are allocated together: ten of 48
// bytes fill a size class of the Go heap.
const handlesEach = 10

// newHandle returns a Txn for the View that holds the slot of s.
func (s *txnState) newHandle() *Txn {
	if len(s.spareTxns) == 0 {
		s.spareTxns = make([]Txn, handlesEach)
	}
	tx := &s.spareTxns[0]
	s.spareTxns = s.spareTxns[1:]
	tx.state = s
	return tx
}

// newIteratorLocked returns a new Iterator. The caller holds open.
func (s *txnState) newIteratorLocked() *Iterator {
	if s.slot != nil { // the state is not a View's, and serves one transaction
		return new(Iterator)
	}
	if len(s.spare) == 0 {
		s.spare = make([]Iterator, handlesEach)
	}
	it := &s.spare[0]
	s.spare = s.spare[1:]
	return it
}

// An openState holds what the end of a transaction closes and empties. Its lock
// guards all fields.
type openState struct {
	lock.Mutex[lock.Transaction]
	iterators []*Iterator
	lent      [][]byte // mangled at the end, with invariants only
	loops     int      // the number of running loops over All, Prefix and Range
	loopErr   error    // the first error of the loops, for Err
}

// newTxn returns a transaction with its own state.
func newTxn() *Txn {
	both := new(struct {
		tx    Txn
		state txnState
	})
	both.tx.state = &both.state
	return &both.tx
}

// begin gives the transaction the snapshot of slot. The caller has set tx.state.
func (tx *Txn) begin(d *DB, slot *state.Slot) {
	tx.db = d
	tx.seq = slot.Seq()
	if mutant.On(mutant.SnapshotOffByOne) {
		tx.seq++
	}
	if mutant.On(mutant.StaleReadVersion) && tx.seq > 0 {
		tx.seq--
	}
	tx.view = d.store.Begin(slot)
}

// Discard ends the transaction without writing anything. After Commit or another
// Discard it does nothing.
func (tx *Txn) Discard() { tx.end() }

// end releases everything that the transaction holds, unless another call has done
// so or is about to. It reports whether the state is surely empty, so that another
// transaction may reuse it.
func (tx *Txn) end() bool {
	was := tx.status.Swap(txnEnded)
	if was == txnEnded {
		return false
	}
	s := tx.state
	if was == txnLending {
		s.closeAll()
	}
	empty := s.decoded.Reset()
	tx.view, s.ctx = nil, nil
	if w := s.writes; w != nil {
		s.writes = nil
		tx.db.commits.FreeWriteSet(w)
	}
	if slot := s.slot; slot != nil {
		s.slot = nil
		tx.db.store.Release(slot)
	}
	return empty
}

// ended reports whether the transaction has ended. Its state may then belong to
// another transaction.
func (tx *Txn) ended() bool { return tx.status.Load() == txnEnded }

// lockOpen locks tx.state.open and reports true. If the transaction has ended, it
// locks nothing and reports false. A goroutine that outlives the transaction may
// call it at any time: either the end waits for the unlock, or lockOpen reports
// false.
func (tx *Txn) lockOpen() bool {
	open := &tx.state.open
	open.Lock()
	tx.status.CompareAndSwap(txnOpen, txnLending)
	if tx.ended() {
		open.Unlock()
		return false
	}
	return true
}

// closeAll closes the open iterators, mangles lent copies, and ends the loops.
func (s *txnState) closeAll() {
	open := &s.open
	open.Lock()
	iterators, lent := open.iterators, open.lent
	if len(iterators) > 0 {
		open.iterators = nil
	}
	open.lent, open.loops, open.loopErr = nil, 0, nil
	open.Unlock()
	for _, it := range iterators {
		it.closeAtEnd()
	}
	for _, b := range lent {
		invariant.Mangle(b)
	}
}

// lend returns b, which the caller may read until the transaction ends. With
// invariants it returns a copy, which the end of the transaction mangles.
func (tx *Txn) lend(b []byte) []byte {
	if !invariant.Enabled || b == nil {
		return b
	}
	c, err := copyBorrowed(make([]byte, 0, len(b)), b)
	if err != nil {
		return b // the caller's own read meets the fault
	}
	if tx.lockOpen() {
		defer tx.state.open.Unlock()
		tx.state.open.lent = append(tx.state.open.lent, c)
	}
	return c
}

// copyBorrowed appends borrowed bytes to dst. A fault in a mapped file is an error.
func copyBorrowed(dst, borrowed []byte) (all []byte, err error) {
	defer fault.Enter().Leave(&err)
	all = dst // the result after a fault
	return append(all, borrowed...), nil
}

// check returns the error of operations of the transaction, or nil if they can go
// on.
func (tx *Txn) check() error {
	switch {
	case tx.ended():
		return ErrTxnDone
	case tx.db.store.Closed():
		return ErrClosed
	case tx.state.ctx != nil:
		return tx.state.ctx.Err()
	}
	return nil
}

// context returns the context of the transaction.
func (tx *Txn) context() context.Context {
	if tx.state.ctx == nil {
		return context.Background()
	}
	return tx.state.ctx
}

// nowMs returns the time by which this transaction judges expiry, in milliseconds
// of Unix time. The first call sets it, and it stays the same until the end.
func (tx *Txn) nowMs() uint64 {
	if now := tx.now.Load(); now != 0 {
		return now
	}
	tx.now.CompareAndSwap(0, max(tx.db.store.Now(), 1))
	return tx.now.Load()
}

// ReadVersion returns the version of the snapshot that the transaction reads.
func (tx *Txn) ReadVersion() uint64 { return uint64(tx.seq) }

// CommitVersion returns the version of the transaction's writes after a successful
// Commit. It returns 0 before that, after a commit without writes, and after
// CommitAsync.
func (tx *Txn) CommitVersion() uint64 { return uint64(tx.state.commitSeq) }

// Err returns the error that ended the last loop over All, Prefix or Range early,
// or nil. Of loops that run at the same time, it returns the first error. Once the
// transaction has ended, it returns ErrTxnDone.
func (tx *Txn) Err() error {
	if !tx.lockOpen() {
		return ErrTxnDone
	}
	defer tx.state.open.Unlock()
	return tx.state.open.loopErr
}

// Get returns the value of key, or ErrNotFound. The value is valid until the
// transaction ends.
func (tx *Txn) Get(key []byte) ([]byte, error) {
	v, m, seq, err := tx.lookup(key)
	if err == nil && m.Kind == base.KindPointer {
		v, err = tx.fetch(v, key, seq)
	}
	if err != nil {
		return nil, err
	}
	return tx.lend(v), nil
}

// GetCopy appends the value of key to dst and returns the result, or ErrNotFound.
func (tx *Txn) GetCopy(key, dst []byte) ([]byte, error) {
	v, m, seq, err := tx.lookup(key)
	if err == nil && m.Kind == base.KindPointer {
		v, err = tx.fetch(v, key, seq)
	}
	if err != nil {
		return dst, err
	}
	return copyBorrowed(dst, v)
}

// GetItem returns the value of key with its metadata, or ErrNotFound.
func (tx *Txn) GetItem(key []byte) (Item, error) {
	v, m, seq, err := tx.lookup(key)
	if err != nil {
		return Item{}, err
	}
	own := tx.state.decoded.Alloc(len(key)) // the caller may reuse key at once
	copy(own, key)
	tx.state.decoded.Filled(len(own))
	return Item{tx: tx, entry: base.Entry{Key: own, Value: tx.lend(v), Seq: seq, Meta: m}}, nil
}

// fetch returns the value of an entry of base.KindPointer.
func (tx *Txn) fetch(pointer, key []byte, seq base.SeqNum) (value []byte, err error) {
	defer fault.Enter().Leave(&err) // the pointer may lie in a mapped file
	r, p, err := tx.valueReader(pointer, seq)
	if err != nil {
		return nil, err
	}
	return r.Get(p, key, seq, &tx.state.decoded)
}

// Has reports whether key has a value.
func (tx *Txn) Has(key []byte) (bool, error) {
	_, _, _, err := tx.lookup(key)
	if err == ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// lookup finds key among the transaction's own writes, then in the snapshot. Commit
// validates a lookup in the snapshot, whether it found a value or not. The results
// are separate values because these fit into registers; a base.Entry does not.
func (tx *Txn) lookup(key []byte) (value []byte, m base.Meta, seq base.SeqNum, err error) {
	if err := tx.check(); err != nil {
		return nil, base.Meta{}, 0, err
	}
	if err := checkKey(key); err != nil {
		return nil, base.Meta{}, 0, err
	}
	view := tx.view
	if view == nil {
		return nil, base.Meta{}, 0, ErrTxnDone // the transaction ended just now, on another goroutine
	}
	hash := base.Hash(key, tx.db.hashSeed)
	if w := tx.state.writes; w != nil {
		if w.Pending.Len() > 0 && !mutant.On(mutant.IgnoreOwnWrites) {
			if v, m, _, ok := w.Pending.Get(key, hash, base.SeqNumMax); ok {
				return tx.show(v, m, 0) // sequence number 0: an own write
			}
			if w.Pending.HasDeletions() && w.Pending.Cover(key, tx.seq) != 0 {
				return nil, base.Meta{}, 0, ErrNotFound // the transaction itself deleted the range
			}
		}
		if !mutant.On(mutant.SkipPointCheck) {
			w.Reads.AddKey(key, hash)
		}
	}
	if len(view.Memtables) > 1 {
		warm := uint64(0)
		for _, t := range view.Memtables {
			warm += t.Warm(hash)
		}
		runtime.KeepAlive(warm)
	}
	for _, t := range view.Memtables {
		v, m, seq, ok := t.Get(key, hash, tx.seq)
		// A range tombstone that hides the key here also hides it in all older parts.
		if t.HasDeletions() && t.Cover(key, tx.seq) > seq {
			return nil, base.Meta{}, 0, ErrNotFound
		}
		if ok {
			return tx.show(v, m, seq)
		}
	}
	v, m, seq, ok, err := tx.get(view, key, hash)
	if err != nil {
		return nil, base.Meta{}, 0, err
	}
	if !ok {
		return nil, base.Meta{}, 0, ErrNotFound
	}
	return tx.show(v, m, seq)
}

// get finds key in the tree of v. In a View, which guards itself already, it avoids
// the deferred call, which would take five percent of a Get.
func (tx *Txn) get(v *state.View, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	if scope := fault.Enter(); scope {
		return tx.getGuarded(scope, v, key, hash)
	}
	return v.Tree.Get(key, hash, tx.seq, &tx.state.decoded)
}

func (tx *Txn) getGuarded(scope fault.Scope, v *state.View, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	defer scope.Leave(&err)
	return v.Tree.Get(key, hash, tx.seq, &tx.state.decoded)
}

// show returns an entry that was found, or ErrNotFound if it is a tombstone or has
// expired.
func (tx *Txn) show(value []byte, m base.Meta, seq base.SeqNum) ([]byte, base.Meta, base.SeqNum, error) {
	if mutant.On(mutant.ExpiryOffByOne) && m.ExpiresAt != 0 {
		m.ExpiresAt++
	}
	if !m.Kind.HasValue() || (m.ExpiresAt != 0 && tx.expired(m.ExpiresAt, seq == 0)) {
		return nil, base.Meta{}, 0, ErrNotFound
	}
	return value, m, seq, nil
}

// expired reports whether a value with the expiry time at has expired for the
// transaction. If so, it first makes that time durable, so that a crash does not
// bring the value back. For an own write, the commit makes the time durable.
func (tx *Txn) expired(at uint64, own bool) bool {
	if tx.nowMs() < at {
		return false
	}
	if !own {
		tx.db.store.KeepExpired(at)
	}
	return true
}

func checkKey(key []byte) error {
	switch {
	case len(key) == 0:
		return ErrEmptyKey
	case len(key) > MaxKeySize:
		return fmt.Errorf("%w: %d bytes, of at most %d", ErrKeyTooLarge, len(key), MaxKeySize)
	}
	return nil
}

// A SetOption adds metadata to one value.
type SetOption struct {
	kind  setOptionKind
	value int64
}

type setOptionKind uint8

const (
	setTTL setOptionKind = iota + 1
	setExpiry
	setNoExpiry
	setUserMeta
)

// TTL lets the value expire when d has passed, or at once if d is 0 or less. It
// rounds d up to whole milliseconds.
//
// A value that a reader found expired stays expired after a crash, even if the
// clock goes back. The first read that finds it expired may wait for a sync.
func TTL(d time.Duration) SetOption { return SetOption{setTTL, int64(d)} }

// ExpiresAt lets the value expire at t. It rounds t up to whole milliseconds. A
// zero t means never, as it does for Item.ExpiresAt.
func ExpiresAt(t time.Time) SetOption {
	if t.IsZero() {
		return SetOption{setNoExpiry, 0}
	}
	// UnixMilli overflows outside of these bounds.
	switch {
	case t.Before(time.UnixMilli(1)):
		return SetOption{setExpiry, 1}
	case t.After(time.UnixMilli(math.MaxInt64 - 1)):
		return SetOption{setExpiry, math.MaxInt64}
	}
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return SetOption{setExpiry, ms}
}

// UserMeta attaches a byte to the value. Item.UserMeta returns the byte.
func UserMeta(b byte) SetOption { return SetOption{setUserMeta, int64(b)} }

// Set gives key a value. It copies both, so the caller may reuse them at once.
// Options of an earlier Set of the key do not carry over.
func (tx *Txn) Set(key, value []byte, opts ...SetOption) error {
	return tx.write(key, value, tx.metaOf(opts))
}

// metaOf returns the metadata that the options of a Set describe.
func (tx *Txn) metaOf(opts []SetOption) base.Meta {
	m := base.Meta{Kind: base.KindSet}
	for _, o := range opts {
		switch o.kind {
		case setTTL:
			m.ExpiresAt = expiryAfter(tx, o.value)
		case setExpiry:
			m.ExpiresAt = uint64(max(o.value, 1))
		case setNoExpiry:
			m.ExpiresAt = 0
		case setUserMeta:
			m.User = byte(o.value)
		}
	}
	return m
}

// expiryAfter returns the time at which ns nanoseconds from now have passed, in
// milliseconds of Unix time.
func expiryAfter(tx *Txn, ns int64) uint64 {
	if tx.check() != nil {
		return 1 // the write will be refused
	}
	ms := ns / int64(time.Millisecond)
	if ns > ms*int64(time.Millisecond) {
		ms++
	}
	return uint64(max(int64(tx.db.store.Now())+ms, 1))
}

// Delete removes the value of key, if it has one.
func (tx *Txn) Delete(key []byte) error {
	return tx.write(key, nil, base.Meta{Kind: base.KindDelete})
}

// DeleteRange removes the values of all keys from lo (inclusive) to hi (exclusive).
// A nil lo is the first key. A nil hi is no bound.
//
// DeleteRange takes the same short time for any number of keys, because it reads
// none of them. Writes of other transactions in the range are therefore no
// conflict; the later commit prevails. For a transaction that read a key of the
// range, present or absent, the deletion is a write of that key.
//
// DeleteRange removes what the transaction itself has set in the range before. What
// the transaction sets later stays. Open iterators ignore the deletion until the
// caller positions them again.
func (tx *Txn) DeleteRange(lo, hi []byte) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	for _, bound := range [][]byte{lo, hi} {
		if len(bound) > MaxKeySize {
			return checkKey(bound)
		}
	}
	if len(lo) == 0 {
		lo = base.FirstKey
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil // an empty hi, which means no bound below, ends here too
	}
	m := base.Meta{Kind: base.KindDeleteRange}
	return tx.state.writes.Pending.Set(lo, hi, base.Hash(lo, tx.db.hashSeed), m, 0)
}

// checkWrite returns the error of writes of the transaction, or nil if it can
// write.
func (tx *Txn) checkWrite() error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.state.writes == nil {
		return ErrReadOnly
	}
	return nil
}

// writable returns the error of a write of key, or nil if the transaction can write
// it.
func (tx *Txn) writable(key []byte) error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.state.writes == nil {
		return ErrReadOnly
	}
	return checkKey(key)
}

func (tx *Txn) write(key, value []byte, m base.Meta) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if uint64(len(value)) > MaxValueSize {
		return fmt.Errorf("%w: %d bytes, of at most %d", ErrValueTooLarge, len(value), uint64(MaxValueSize))
	}
	tx.state.writes.Adds = tx.state.writes.Adds || m.Kind != base.KindDelete
	if int64(len(value)) >= tx.db.opts.LargeValueThreshold {
		tx.state.writes.Large += int64(len(value))
	}
	return tx.state.writes.Pending.Set(key, value, base.Hash(key, tx.db.hashSeed), m, 0)
}
