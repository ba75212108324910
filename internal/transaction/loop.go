package transaction

import (
	"iter"

	"github.com/stoatdb/stoat/internal/base"
)

// All is stoat.Txn.All.
func (tx Txn) All() iter.Seq2[[]byte, []byte] { return tx.loop(IterOptions{}) }

// Prefix is stoat.Txn.Prefix.
func (tx Txn) Prefix(prefix []byte) iter.Seq2[[]byte, []byte] {
	return tx.loop(IterOptions{Prefix: prefix})
}

// Range is stoat.Txn.Range.
func (tx Txn) Range(lo, hi []byte) iter.Seq2[[]byte, []byte] {
	return tx.loop(IterOptions{Lower: lo, Upper: hi})
}

// loop turns an iterator into a function for range loops.
func (tx Txn) loop(o IterOptions) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		it := tx.Iterator(o)
		tx.beginLoop()
		defer func() { tx.endLoop(it.Close()) }()
		for it.Next() {
			value := it.Value()
			if it.c.err != nil || !yield(it.Key(), value) {
				return
			}
		}
	}
}

func (tx Txn) beginLoop() {
	if !tx.lockOpen() {
		return
	}
	defer tx.s.open.Unlock()
	if tx.s.open.loops++; tx.s.open.loops == 1 {
		tx.s.open.loopErr = nil
	}
}

func (tx Txn) endLoop(err error) {
	if !tx.lockOpen() {
		return
	}
	defer tx.s.open.Unlock()
	tx.s.open.loops--
	if tx.s.open.loopErr == nil {
		tx.s.open.loopErr = err
	}
}

// Err is stoat.Txn.Err.
func (tx Txn) Err() error {
	if !tx.lockOpen() {
		return base.ErrTxnDone
	}
	defer tx.s.open.Unlock()
	return tx.s.open.loopErr
}
