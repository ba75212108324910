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
// A Txn is a small value, and copies of it are the same transaction. After the end
// of the transaction, the operations of each copy return ErrTxnDone. So do those of
// the zero Txn.
//
// A Txn reads and writes one keyspace. In returns the same transaction in another.
type Txn struct {
	s   *txnState
	gen uint64    // the generation of s that this transaction is
	in  *Keyspace // nil is the default keyspace
}

// A txnState is the state of a transaction. A transaction of Begin has its own.
// Successive Views with one slot share the txnState of the slot, and each is a
// generation of it.
type txnState struct {
	// gen is the generation of the open transaction. The end of a transaction adds
	// genStep. The bit genLending says that the transaction has opened an iterator,
	// begun a loop, or lent a copy.
	gen atomic.Uint64

	db     *DB
	shared bool          // successive Views share the state
	view   *state.View   // nil between transactions
	seq    base.SeqNum   // of the snapshot
	now    atomic.Uint64 // milliseconds of Unix time, or 0; see nowMs

	slot      *state.Slot // released by end; nil in a View, which releases its slot itself
	ctx       context.Context
	writes    *commit.WriteSet // nil in a read-only transaction
	readErr   error            // the first read error of a read-write transaction
	commitSeq base.SeqNum
	decoded   codec.Arena // memory of decompressed values

	open openState
}

const (
	genLending = 1 // the lowest bit of txnState.gen
	genStep    = 2 // what the end of a transaction adds to txnState.gen
)

// An openState holds what the end of a transaction closes and empties. Its lock
// guards all fields.
type openState struct {
	lock.Mutex[lock.Transaction]
	iterators []Iterator
	lent      [][]byte // mangled at the end, with invariants only
	loops     int      // the number of running loops over All, Prefix and Range
	loopErr   error    // the first error of the loops, for Err
	// points are those of iterators that no read at a timestamp uses now.
	points []Iterator
}

// begin starts the next transaction of the state, with the snapshot of slot.
func (s *txnState) begin(d *DB, slot *state.Slot) Txn {
	s.seq = slot.Seq()
	if mutant.On(mutant.SnapshotOffByOne) {
		s.seq++
	}
	if mutant.On(mutant.StaleReadVersion) && s.seq > 0 {
		s.seq--
	}
	s.view = d.store.Begin(slot)
	return Txn{s: s, gen: s.gen.Load()}
}

// Discard ends the transaction without writing anything. After Commit or another
// Discard it does nothing.
func (tx Txn) Discard() { tx.end() }

// end releases everything that the transaction holds, unless another call has done
// so or is about to. It reports whether the state is surely empty, so that another
// transaction may reuse it.
func (tx Txn) end() bool {
	ended, lending := tx.finish()
	if !ended {
		return false
	}
	s := tx.s
	if lending {
		s.closeAll()
	}
	empty := s.decoded.Reset()
	s.view, s.ctx, s.readErr = nil, nil, nil
	s.now.Store(0)
	if w := s.writes; w != nil {
		s.writes = nil
		s.db.commits.FreeWriteSet(w)
	}
	if slot := s.slot; slot != nil {
		s.slot = nil
		s.db.store.Release(slot)
	}
	return empty
}

// finish moves the state to its next generation, which ends the transaction for its
// callers. It reports false if the transaction had ended before. It also reports
// whether the transaction was lending.
func (tx Txn) finish() (finished, lending bool) {
	if tx.s == nil {
		return false, false
	}
	for {
		gen := tx.s.gen.Load()
		if gen&^genLending != tx.gen {
			return false, false
		}
		if tx.s.gen.CompareAndSwap(gen, tx.gen+genStep) {
			return true, gen&genLending != 0
		}
	}
}

// ended reports whether the transaction has ended. Its state may then belong to
// another transaction.
func (tx Txn) ended() bool { return tx.s == nil || tx.s.gen.Load()&^genLending != tx.gen }

// lockOpen locks tx.s.open and reports true. If the transaction has ended, it locks
// nothing and reports false. A goroutine that outlives the transaction may call it
// at any time: either the end waits for the unlock, or lockOpen reports false.
func (tx Txn) lockOpen() bool {
	if tx.s == nil {
		return false
	}
	open := &tx.s.open
	open.Lock()
	tx.s.gen.CompareAndSwap(tx.gen, tx.gen|genLending)
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
	points := open.points
	open.points = nil
	open.lent, open.loops, open.loopErr = nil, 0, nil
	open.Unlock()
	for _, it := range points {
		if stopped, _ := it.stop(); stopped {
			s.db.iterators.Put(it.c)
		}
	}
	for _, it := range iterators {
		it.closeAtEnd()
	}
	for _, b := range lent {
		invariant.Mangle(b)
	}
}

// lend returns b, which the caller may read until the transaction ends. With
// invariants it returns a copy, which the end of the transaction mangles.
func (tx Txn) lend(b []byte) []byte {
	if !invariant.Enabled || b == nil {
		return b
	}
	c, err := copyBorrowed(make([]byte, 0, len(b)), b)
	if err != nil {
		return b // the caller's own read meets the fault
	}
	if tx.lockOpen() {
		defer tx.s.open.Unlock()
		tx.s.open.lent = append(tx.s.open.lent, c)
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
func (tx Txn) check() error {
	switch {
	case tx.ended():
		return ErrTxnDone
	case tx.s.db.store.Closed():
		return ErrClosed
	case tx.s.ctx != nil:
		return tx.s.ctx.Err()
	}
	return nil
}

// context returns the context of the transaction.
func (tx Txn) context() context.Context {
	if tx.s.ctx == nil {
		return context.Background()
	}
	return tx.s.ctx
}

// nowMs returns the time by which this transaction judges expiry, in milliseconds
// of Unix time. The first call sets it, and it stays the same until the end.
func (tx Txn) nowMs() uint64 {
	if now := tx.s.now.Load(); now != 0 {
		return now
	}
	tx.s.now.CompareAndSwap(0, max(tx.s.db.store.Now(), 1))
	return tx.s.now.Load()
}

// ReadVersion returns the version of the snapshot that the transaction reads. It
// returns 0 after the end of a View.
func (tx Txn) ReadVersion() uint64 {
	if tx.s == nil || tx.s.shared && tx.ended() {
		return 0
	}
	return uint64(tx.s.seq)
}

// CommitVersion returns the version of the transaction's writes after a successful
// Commit. It returns 0 before that, after a commit without writes, and after
// CommitAsync.
func (tx Txn) CommitVersion() uint64 {
	if tx.s == nil {
		return 0
	}
	return uint64(tx.s.commitSeq)
}

// noteRead remembers the first read error of a read-write transaction, which Commit
// then returns. It returns err.
func (tx Txn) noteRead(err error) error {
	if s := tx.s; err != nil && s != nil && s.writes != nil && s.readErr == nil {
		s.readErr = err
	}
	return err
}

// Err returns the error that ended the last loop over All, Prefix or Range early,
// or nil. Of loops that run at the same time, it returns the first error. Once the
// transaction has ended, it returns ErrTxnDone.
func (tx Txn) Err() error {
	if !tx.lockOpen() {
		return ErrTxnDone
	}
	defer tx.s.open.Unlock()
	return tx.s.open.loopErr
}

// Get returns the value of key, or ErrNotFound. The value is valid until the
// transaction ends.
func (tx Txn) Get(key []byte) ([]byte, error) {
	if !tx.plain(key) {
		var buf keyBuffer
		var err error
		if key, err = tx.storedKey(buf[:0], key); err != nil {
			return nil, err
		}
	}
	v, m, seq, err := tx.lookup(key)
	if err == errPartial {
		v, m, seq, err = tx.fold(key, tx.s.seq, found{v, m, seq}, foldValues)
	}
	if err == nil && m.Kind == base.KindPointer {
		v, err = tx.fetch(v, key, seq)
	}
	if err != nil {
		return nil, err
	}
	return tx.lend(v), nil
}

// GetCopy appends the value of key to dst and returns the result, or ErrNotFound.
func (tx Txn) GetCopy(key, dst []byte) ([]byte, error) {
	if !tx.plain(key) {
		var buf keyBuffer
		var err error
		if key, err = tx.storedKey(buf[:0], key); err != nil {
			return dst, err
		}
	}
	v, m, seq, err := tx.lookup(key)
	if err == errPartial {
		v, m, seq, err = tx.fold(key, tx.s.seq, found{v, m, seq}, foldValues)
	}
	if err == nil && m.Kind == base.KindPointer {
		v, err = tx.fetch(v, key, seq)
	}
	if err != nil {
		return dst, err
	}
	all, err := copyBorrowed(dst, v)
	return all, tx.noteRead(err)
}

// GetItem returns the value of key with its metadata, or ErrNotFound.
func (tx Txn) GetItem(key []byte) (Item, error) {
	if !tx.plain(key) {
		var buf keyBuffer
		var err error
		if key, err = tx.storedKey(buf[:0], key); err != nil {
			return Item{}, err
		}
	}
	v, m, seq, err := tx.lookup(key)
	if err == errPartial {
		v, m, seq, err = tx.fold(key, tx.s.seq, found{v, m, seq}, foldValues)
	}
	if err != nil {
		return Item{}, err
	}
	own := tx.s.decoded.Alloc(len(key)) // the caller may reuse key at once
	copy(own, key)
	tx.s.decoded.Filled(len(own))
	e := base.Entry{Key: own, Value: tx.lend(v), Seq: seq, Meta: m}
	return Item{tx: tx, entry: e, skip: tx.skip(own)}, nil
}

// fetch returns the value of an entry of base.KindPointer.
func (tx Txn) fetch(pointer, key []byte, seq base.SeqNum) ([]byte, error) {
	value, err := tx.fetchGuarded(pointer, key, seq)
	return value, tx.noteRead(err)
}

func (tx Txn) fetchGuarded(pointer, key []byte, seq base.SeqNum) (value []byte, err error) {
	defer fault.Enter().Leave(&err) // the pointer may lie in a mapped file
	r, p, err := tx.valueReader(pointer, seq)
	if err != nil {
		return nil, err
	}
	return r.Get(p, key, seq, &tx.s.decoded)
}

// Has reports whether key has a value.
func (tx Txn) Has(key []byte) (bool, error) {
	if !tx.plain(key) {
		var buf keyBuffer
		var err error
		if key, err = tx.storedKey(buf[:0], key); err != nil {
			return false, err
		}
	}
	v, m, seq, err := tx.lookup(key)
	if err == errPartial {
		_, _, _, err = tx.fold(key, tx.s.seq, found{v, m, seq}, foldKeys)
	}
	if err == ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// lookup finds a stored key among the transaction's own writes, then in the snapshot.
// If it finds a partial entry, the error is errPartial, and the results are that entry. Commit
// validates a lookup in the snapshot, whether it found a value or not. The results
// are separate values because these fit into registers; a base.Entry does not.
func (tx Txn) lookup(key []byte) (value []byte, m base.Meta, seq base.SeqNum, err error) {
	if err := tx.check(); err != nil {
		return nil, base.Meta{}, 0, err
	}
	if len(key) == 0 || len(key) > MaxKeySize && tx.plain(key) {
		return nil, base.Meta{}, 0, checkKey(key)
	}
	view := tx.s.view
	if view == nil {
		return nil, base.Meta{}, 0, ErrTxnDone // the transaction ended just now, on another goroutine
	}
	hash := base.Hash(key, tx.s.db.hashSeed)
	if w := tx.s.writes; w != nil {
		if w.Pending.Len() > 0 && !mutant.On(mutant.IgnoreOwnWrites) {
			if v, m, _, ok := w.Pending.Get(key, hash, base.SeqNumMax); ok {
				return tx.show(v, m, 0) // sequence number 0: an own write
			}
			if w.Pending.HasDeletions() && w.Pending.Cover(key, tx.s.seq) != 0 {
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
		v, m, seq, ok := t.Get(key, hash, tx.s.seq)
		// A range tombstone that hides the key here also hides it in all older parts.
		if t.HasDeletions() && t.Cover(key, tx.s.seq) > seq {
			return nil, base.Meta{}, 0, ErrNotFound
		}
		if ok {
			return tx.show(v, m, seq)
		}
	}
	v, m, seq, ok, err := tx.get(view, key, hash)
	if err != nil {
		return nil, base.Meta{}, 0, tx.noteRead(err)
	}
	if !ok {
		return nil, base.Meta{}, 0, ErrNotFound
	}
	return tx.show(v, m, seq)
}

// get finds key in the tree of v. In a View, which guards itself already, it avoids
// the deferred call, which would take five percent of a Get.
func (tx Txn) get(v *state.View, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	if scope := fault.Enter(); scope {
		return tx.getGuarded(scope, v, key, hash)
	}
	return v.Tree.Get(key, hash, tx.s.seq, &tx.s.decoded)
}

func (tx Txn) getGuarded(scope fault.Scope, v *state.View, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	defer scope.Leave(&err)
	return v.Tree.Get(key, hash, tx.s.seq, &tx.s.decoded)
}

// show returns an entry that was found, or ErrNotFound if it is a tombstone or has
// expired.
func (tx Txn) show(value []byte, m base.Meta, seq base.SeqNum) ([]byte, base.Meta, base.SeqNum, error) {
	if mutant.On(mutant.ExpiryOffByOne) && m.ExpiresAt != 0 {
		m.ExpiresAt++
	}
	if !m.Kind.HasValue() && m.Kind.Partial() {
		return value, m, seq, errPartial
	}
	if !m.Kind.HasValue() || (m.ExpiresAt != 0 && tx.expired(m.ExpiresAt, seq == 0)) {
		return nil, base.Meta{}, 0, ErrNotFound
	}
	return value, m, seq, nil
}

// expired reports whether a value with the expiry time at has expired for the
// transaction. If so, it first makes that time durable, so that a crash does not
// bring the value back. For an own write, the commit makes the time durable.
func (tx Txn) expired(at uint64, own bool) bool {
	if tx.nowMs() < at {
		return false
	}
	if !own {
		tx.s.db.store.KeepExpired(at)
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
func (tx Txn) Set(key, value []byte, opts ...SetOption) error {
	return tx.write(key, value, tx.metaOf(opts))
}

// metaOf returns the metadata that the options of a Set describe.
func (tx Txn) metaOf(opts []SetOption) base.Meta {
	m, expiry := base.Meta{Kind: base.KindSet}, false
	for _, o := range opts {
		expiry = expiry || o.kind != setUserMeta
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
	if !expiry && tx.s != nil {
		ttl := tx.s.db.settings.Default().DefaultTTLMs
		if tx.in != nil {
			ttl = tx.in.settings().DefaultTTLMs
		}
		if ttl != 0 {
			m.ExpiresAt = min(tx.s.db.store.Now()+ttl, base.TimeMsMax)
		}
	}
	return m
}

// expiryAfter returns the time at which ns nanoseconds from now have passed, in
// milliseconds of Unix time.
func expiryAfter(tx Txn, ns int64) uint64 {
	if tx.check() != nil {
		return 1 // the write will be refused
	}
	ms := ns / int64(time.Millisecond)
	if ns > ms*int64(time.Millisecond) {
		ms++
	}
	return uint64(max(int64(tx.s.db.store.Now())+ms, 1))
}

// Delete removes the value of key, if it has one.
func (tx Txn) Delete(key []byte) error {
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
func (tx Txn) DeleteRange(lo, hi []byte) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	for _, bound := range [][]byte{lo, hi} {
		if len(bound) > MaxKeySize {
			return checkKey(bound)
		}
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return nil // an empty hi, which means no bound below, ends here too
	}
	var b translated
	b.set(tx.space(), lo, hi)
	return tx.deleteStored(b.lower, b.upper)
}

// deleteStored deletes a range of stored keys. A nil hi is the end of all keys.
func (tx Txn) deleteStored(lo, hi []byte) error {
	if len(lo) == 0 {
		lo = base.FirstKey
	}
	m := base.Meta{Kind: base.KindDeleteRange}
	return tx.s.writes.Pending.Set(lo, hi, base.Hash(lo, tx.s.db.hashSeed), m, 0)
}

// checkWrite returns the error of writes of the transaction, or nil if it can
// write.
func (tx Txn) checkWrite() error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.s.writes == nil {
		return ErrReadOnly
	}
	if tx.in != nil {
		return tx.in.enter(tx)
	}
	return nil
}

// writable returns the error of a write of key, or nil if the transaction can write
// it.
func (tx Txn) writable(key []byte) error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.s.writes == nil {
		return ErrReadOnly
	}
	if tx.in != nil {
		if err := tx.in.enter(tx); err != nil {
			return err
		}
	}
	return checkKey(key)
}

func (tx Txn) write(key, value []byte, m base.Meta) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if uint64(len(value)) > MaxValueSize {
		return fmt.Errorf("%w: %d bytes, of at most %d", ErrValueTooLarge, len(value), uint64(MaxValueSize))
	}
	tx.s.writes.Adds = tx.s.writes.Adds || m.Kind != base.KindDelete
	if len(value) >= valueThresholdMin && int64(len(value)) >= tx.settings().LargeValueThreshold {
		tx.s.writes.Large += int64(len(value))
	}
	if !tx.plain(key) {
		key = tx.keyToWrite(key)
	}
	return tx.s.writes.Pending.Set(key, value, base.Hash(key, tx.s.db.hashSeed), m, 0)
}

// setStored puts an entry with a stored key into the transaction's writes.
func (tx Txn) setStored(key, value []byte, m base.Meta) error {
	return tx.s.writes.Pending.Set(key, value, base.Hash(key, tx.s.db.hashSeed), m, 0)
}
