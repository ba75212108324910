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

// A Txn is a transaction: a snapshot to read, and in ReadWrite mode a set of
// writes that Commit makes visible to others in one step, or Discard forgets.
//
// A Txn belongs to one transaction for good: once that has ended, the Txn answers
// ErrTxnDone. So a View allocates a Txn, which has 48 bytes, and takes the rest of
// what a transaction needs from its slot.
type Txn struct {
	db     *DB
	state  *txnState
	view   *state.View   // nil once the transaction has ended
	seq    base.SeqNum   // the snapshot
	now    atomic.Uint64 // the transaction's time in milliseconds, 0 until it is asked for
	status atomic.Uint32 // txnOpen, txnLending or txnEnded
}

// The status of a transaction only grows.
const (
	txnOpen    = iota
	txnLending // and has opened an iterator, begun a loop, or lent a copy
	txnEnded
)

// A txnState is what a transaction has beside its Txn. Transactions of Begin have
// their own. Those of Views use that of their slot, one after the other, so that
// only a transaction that has not ended may look at it.
type txnState struct {
	slot      *state.Slot // released at the end; nil in a View, which does that itself
	ctx       context.Context
	writes    *commit.WriteSet // nil in a read-only transaction
	commitSeq base.SeqNum
	decoded   codec.Arena // what was compressed

	open openState
}

// An openState is what the end of a transaction closes, and empties.
type openState struct {
	lock.Mutex[lock.Transaction]
	iterators []*Iterator
	lent      [][]byte // spoiled at the end, with invariants only
	loops     int      // how many of All, Prefix and Range are under way
	loopErr   error
}

// newTxn returns a transaction that has its own state.
func newTxn() *Txn {
	both := new(struct {
		tx    Txn
		state txnState
	})
	both.tx.state = &both.state
	return &both.tx
}

// begin gives the transaction the snapshot of slot. Its state has been set.
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

// Discard ends the transaction without writing anything. After Commit or
// another Discard it does nothing.
func (tx *Txn) Discard() { tx.end() }

// end lets go of everything the transaction holds, unless another call has done so
// or is about to. It reports whether its state is empty for sure, so that another
// transaction may have it.
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

// ended reports whether the transaction has ended. Then nothing of its state is
// its own.
func (tx *Txn) ended() bool { return tx.status.Load() == txnEnded }

// lockOpen locks what the end of the transaction closes, and reports true, unless
// the transaction has ended. A goroutine that should have ended before may call it
// at any time: the end either waits for its Unlock, or it is refused.
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

// closeAll closes the open iterators, and ends what was lent and the loops.
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

// lend returns b, which the user may look at until the transaction ends. With
// invariants it is a copy that is spoiled then.
func (tx *Txn) lend(b []byte) []byte {
	if !invariant.Enabled || b == nil {
		return b
	}
	c, err := copyBorrowed(make([]byte, 0, len(b)), b)
	if err != nil {
		return b // who looks at it meets the fault
	}
	if tx.lockOpen() {
		defer tx.state.open.Unlock()
		tx.state.open.lent = append(tx.state.open.lent, c)
	}
	return c
}

// copyBorrowed appends borrowed bytes to dst.
func copyBorrowed(dst, borrowed []byte) (all []byte, err error) {
	defer fault.Enter().Leave(&err)
	all = dst // what is returned after a fault
	return append(all, borrowed...), nil
}

// check reports why the transaction can not be used.
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

// nowMs is the time by which this transaction judges expiry, the same from
// its first look to its end.
func (tx *Txn) nowMs() uint64 {
	if now := tx.now.Load(); now != 0 {
		return now
	}
	tx.now.CompareAndSwap(0, max(tx.db.store.Now(), 1))
	return tx.now.Load()
}

// ReadVersion returns the version of the snapshot that the transaction reads.
func (tx *Txn) ReadVersion() uint64 { return uint64(tx.seq) }

// CommitVersion returns the version of the transaction's writes after a
// successful Commit, and 0 before that, if nothing was written, and after
// CommitAsync.
func (tx *Txn) CommitVersion() uint64 { return uint64(tx.state.commitSeq) }

// Err returns the error that ended the last loop over All, Prefix or Range
// early, or nil. Of loops that run at once, it is the first error of any. Once the
// transaction has ended, Err returns ErrTxnDone.
func (tx *Txn) Err() error {
	if !tx.lockOpen() {
		return ErrTxnDone
	}
	defer tx.state.open.Unlock()
	return tx.state.open.loopErr
}

// Get returns the value of key, or ErrNotFound. The bytes are borrowed until
// the transaction ends.
func (tx *Txn) Get(key []byte) ([]byte, error) {
	v, m, seq, err := tx.look(key)
	if err == nil && m.Kind == base.KindPointer {
		v, err = tx.fetch(v, key, seq)
	}
	if err != nil {
		return nil, err
	}
	return tx.lend(v), nil
}

// GetCopy appends the value of key to dst, or returns ErrNotFound.
func (tx *Txn) GetCopy(key, dst []byte) ([]byte, error) {
	v, m, seq, err := tx.look(key)
	if err == nil && m.Kind == base.KindPointer {
		v, err = tx.fetch(v, key, seq)
	}
	if err != nil {
		return dst, err
	}
	return copyBorrowed(dst, v)
}

// GetItem returns the value of key with all that is known of it, or
// ErrNotFound.
func (tx *Txn) GetItem(key []byte) (Item, error) {
	v, m, seq, err := tx.look(key)
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
	defer fault.Enter().Leave(&err) // the pointer is borrowed, too
	r, p, err := tx.valueReader(pointer, seq)
	if err != nil {
		return nil, err
	}
	return r.Get(p, key, seq, &tx.state.decoded)
}

// Has reports whether key has a value.
func (tx *Txn) Has(key []byte) (bool, error) {
	_, _, _, err := tx.look(key)
	if err == ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// look looks key up: first among the transaction's own writes, then in the
// snapshot. A look into the snapshot is a read that Commit validates, whether
// it found something or not. The results come one by one because then they
// fit the registers, which a whole entry does not.
func (tx *Txn) look(key []byte) (value []byte, m base.Meta, seq base.SeqNum, err error) {
	if err := tx.check(); err != nil {
		return nil, base.Meta{}, 0, err
	}
	if err := checkKey(key); err != nil {
		return nil, base.Meta{}, 0, err
	}
	view := tx.view
	if view == nil {
		return nil, base.Meta{}, 0, ErrTxnDone // it has just ended, under somebody's hands
	}
	hash := base.Hash(key, tx.db.hashSeed)
	if w := tx.state.writes; w != nil {
		if w.Pending.Len() > 0 && !mutant.On(mutant.IgnoreOwnWrites) {
			if v, m, _, ok := w.Pending.Get(key, hash, base.SeqNumMax); ok {
				return tx.show(v, m, 0) // by which show knows it
			}
			if w.Pending.HasDeletions() && w.Pending.Cover(key, tx.seq) != 0 {
				return nil, base.Meta{}, 0, ErrNotFound // by its own doing
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
		// What a range deletion hides here, it hides in all that is older.
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

// get looks key up in the tree of v. In a View, which is guarded already, it does
// without the deferred call, which would be five percent of a Get.
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

func (tx *Txn) show(value []byte, m base.Meta, seq base.SeqNum) ([]byte, base.Meta, base.SeqNum, error) {
	if mutant.On(mutant.ExpiryOffByOne) && m.ExpiresAt != 0 {
		m.ExpiresAt++
	}
	if !m.Kind.HasValue() || (m.ExpiresAt != 0 && tx.expired(m.ExpiresAt, seq == 0)) {
		return nil, base.Meta{}, 0, ErrNotFound
	}
	return value, m, seq, nil
}

// expired reports whether a value that expires at a time has done so for the
// transaction. If so, that time is made durable first, so that a crash does not bring
// the value back. The commit of a write of its own will carry the time.
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

// A SetOption says more about one value.
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

// TTL lets the value expire when d has passed, at once if d is 0 or less. A part of a millisecond counts
// as a whole one. What a reader has missed stays expired after a crash, also if
// the clock goes back: the first who misses it may wait for a sync.
func TTL(d time.Duration) SetOption { return SetOption{setTTL, int64(d)} }

// ExpiresAt lets the value expire at t, or never if t is the zero time, as
// Item.ExpiresAt tells it. A part of a millisecond counts as a whole one.
func ExpiresAt(t time.Time) SetOption {
	if t.IsZero() {
		return SetOption{setNoExpiry, 0}
	}
	// UnixMilli counts only what fits in an int64.
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

// UserMeta attaches a byte to the value that Item.UserMeta returns.
func UserMeta(b byte) SetOption { return SetOption{setUserMeta, int64(b)} }

// Set gives key a value. Both are copied; the caller may reuse them at once.
// Options that an earlier Set of the key gave do not carry over.
func (tx *Txn) Set(key, value []byte, opts ...SetOption) error {
	return tx.write(key, value, tx.metaOf(opts))
}

// metaOf returns what options say of a value.
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

// expiryAfter is the time when a duration in nanoseconds from now has passed.
func expiryAfter(tx *Txn, ns int64) uint64 {
	if tx.check() != nil {
		return 1 // the write is about to be refused
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

// DeleteRange removes the values of all keys from lo, inclusive, to hi,
// exclusive. A nil lo is the first key, a nil hi has no end. It takes the same
// short time however many keys there are, and reads none of them: what others
// write there meanwhile is no conflict, and whoever commits later prevails. For
// those who have read, it is a write of every key in the range, there or not.
//
// What the transaction itself has set in the range before is gone, what it
// sets afterwards stays. Iterators that are open go on as if nothing had
// happened until they are positioned anew.
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
		return nil // and never a hi of no bytes, which has a meaning below
	}
	m := base.Meta{Kind: base.KindDeleteRange}
	return tx.state.writes.Pending.Set(lo, hi, base.Hash(lo, tx.db.hashSeed), m, 0)
}

// checkWrite reports why the transaction cannot write.
func (tx *Txn) checkWrite() error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.state.writes == nil {
		return ErrReadOnly
	}
	return nil
}

// writable reports why key can not be written.
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
