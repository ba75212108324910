package transaction

import (
	"fmt"
	"runtime"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
)

// Get is stoat.Txn.Get.
//
// Get, GetItem and Has repeat these lines: a function for them would return through memory.
func (tx Txn) Get(key []byte) ([]byte, error) {
	if !tx.plain(key) {
		var buf keyBuffer
		var err error
		if key, err = tx.storedKey(buf[:0], key); err != nil {
			return nil, err
		}
	}
	v, m, seq, err := tx.lookup(key, nil)
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

// GetCopy is stoat.Txn.GetCopy.
func (tx Txn) GetCopy(key, dst []byte) ([]byte, error) {
	v, err := tx.Get(key)
	if err != nil {
		return dst, err
	}
	all, err := copyBorrowed(dst, v)
	return all, tx.noteRead(err)
}

// GetItem is stoat.Txn.GetItem.
func (tx Txn) GetItem(key []byte) (Item, error) {
	if !tx.plain(key) {
		var buf keyBuffer
		var err error
		if key, err = tx.storedKey(buf[:0], key); err != nil {
			return Item{}, err
		}
	}
	v, m, seq, err := tx.lookup(key, nil)
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

// Has is stoat.Txn.Has.
func (tx Txn) Has(key []byte) (bool, error) {
	if !tx.plain(key) {
		var buf keyBuffer
		var err error
		if key, err = tx.storedKey(buf[:0], key); err != nil {
			return false, err
		}
	}
	v, m, seq, err := tx.lookup(key, nil)
	if err == errPartial {
		_, _, _, err = tx.fold(key, tx.s.seq, found{v, m, seq}, foldKeys)
	}
	if err == base.ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// fetch returns the value of an entry of base.KindPointer.
func (tx Txn) fetch(pointer, key []byte, seq base.SeqNum) ([]byte, error) {
	value, err := tx.fetchGuarded(pointer, key, seq)
	return value, tx.noteRead(err)
}

// fetchGuarded is fetch that notes no error. Like get, it avoids the deferred call in a
// View.
func (tx Txn) fetchGuarded(pointer, key []byte, seq base.SeqNum) ([]byte, error) {
	if scope := fault.Enter(); scope {
		return tx.fetchInScope(scope, pointer, key, seq)
	}
	r, p, err := tx.valueReader(pointer, seq)
	if err != nil {
		return nil, err
	}
	return r.Get(p, key, seq, &tx.s.decoded)
}

func (tx Txn) fetchInScope(scope fault.Scope, pointer, key []byte, seq base.SeqNum) (value []byte, err error) {
	defer scope.Leave(&err)                   // the pointer may lie in a mapped file
	return tx.fetchGuarded(pointer, key, seq) // which enters no scope of its own now
}

// valueReader returns the reader of the value file that a pointer refers to, and
// the decoded pointer.
func (tx Txn) valueReader(pointer []byte, seq base.SeqNum) (*values.Reader, values.Pointer, error) {
	p, err := values.DecodePointer(pointer)
	if err != nil {
		return nil, p, err
	}
	var r *values.Reader
	view := tx.s.view
	switch own := seq == 0 || seq > base.SeqNumMax; {
	case own && tx.s.writes != nil && place.Streamed(tx.s.writes.Streams, p):
		r, err = tx.s.engine.Streams.Reader(tx.s.writes.Streams, p)
	case view != nil:
		r, err = view.Tree.Values(p.File)
	default:
		err = base.ErrTxnDone
	}
	return r, p, err
}

// lookup finds a stored key among the transaction's own writes, then in the snapshot.
// GetMany may have prepared r for it; others give nil.
// If it finds a partial entry, the error is errPartial, and the results are that entry. Commit
// validates a lookup in the snapshot, whether it found a value or not. The results
// are separate values because these fit into registers; a base.Entry does not.
func (tx Txn) lookup(key []byte, r *ready) (value []byte, m base.Meta, seq base.SeqNum, err error) {
	if err := tx.Check(); err != nil {
		return nil, base.Meta{}, 0, err
	}
	if len(key) == 0 || len(key) > base.UserKeyMax && tx.plain(key) {
		return nil, base.Meta{}, 0, checkKey(key)
	}
	view := tx.s.view
	if view == nil {
		return nil, base.Meta{}, 0, base.ErrTxnDone // the transaction ended just now, on another goroutine
	}
	var hash uint64
	if r != nil {
		hash = r.hash
	} else {
		hash = base.Hash(key, tx.s.engine.HashSeed)
	}
	if w := tx.s.writes; w != nil {
		if w.Pending.Len() > 0 && !mutant.On(mutant.IgnoreOwnWrites) {
			if v, m, _, ok := w.Pending.Get(key, hash, base.SeqNumMax); ok {
				tx.s.lentOwn = true
				return tx.show(v, m, 0) // sequence number 0: an own write
			}
			if w.Pending.HasDeletions() && w.Pending.Cover(key, tx.s.seq) != 0 {
				return nil, base.Meta{}, 0, base.ErrNotFound // the transaction itself deleted the range
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
			return nil, base.Meta{}, 0, base.ErrNotFound
		}
		if ok {
			return tx.show(v, m, seq)
		}
	}
	v, m, seq, ok, err := tx.get(view, key, hash, r)
	if err != nil {
		return nil, base.Meta{}, 0, tx.noteRead(err)
	}
	if !ok {
		return nil, base.Meta{}, 0, base.ErrNotFound
	}
	if m.Kind.HasValue() && m.ExpiresAt == 0 {
		return v, m, seq, nil // what show does with most entries
	}
	return tx.show(v, m, seq)
}

// get finds key in the tree of v. It goes on where r ended, if r is not nil. In a View,
// which guards itself already, it avoids the deferred call, which would take five percent
// of a Get.
func (tx Txn) get(v *state.View, key []byte, hash uint64, r *ready) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	if scope := fault.Enter(); scope {
		return tx.getGuarded(scope, v, key, hash, r)
	}
	if r != nil && r.tables != nil {
		return v.Tree.GetPrepared(r.tables, r.lookups, key, tx.s.seq, &tx.s.decoded)
	}
	return v.Tree.Get(key, hash, tx.s.seq, &tx.s.decoded)
}

func (tx Txn) getGuarded(scope fault.Scope, v *state.View, key []byte, hash uint64, r *ready) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	defer scope.Leave(&err)
	return tx.get(v, key, hash, r) // which enters no scope of its own now
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
	if !m.Kind.HasValue() || (m.ExpiresAt != 0 && tx.Expired(m.ExpiresAt, seq == 0)) {
		return nil, base.Meta{}, 0, base.ErrNotFound
	}
	return value, m, seq, nil
}

// Expired reports whether a value with the expiry time at has expired for the
// transaction. If so, it first makes that time durable, so that a crash does not
// bring the value back. For an own write, the commit makes the time durable.
func (tx Txn) Expired(at uint64, own bool) bool {
	if tx.NowMs() < at {
		return false
	}
	if !own {
		tx.s.engine.Store.KeepExpired(at)
	}
	return true
}

func checkKey(key []byte) error {
	switch {
	case len(key) == 0:
		return base.ErrEmptyKey
	case len(key) > base.UserKeyMax:
		return fmt.Errorf("%w: %d bytes, of at most %d", base.ErrKeyTooLarge, len(key), base.UserKeyMax)
	}
	return nil
}
