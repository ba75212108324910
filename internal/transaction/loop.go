package transaction

import (
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// Loop is stoat.Txn.Loop.
func (tx Txn) Loop(o IterOptions) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		it := tx.Iterator(o)
		tx.beginLoop()
		defer func() { tx.endLoop(it.Close()) }()
		for it.Next() && it.round(yield) {
		}
	}
}

// round yields the current entry and the others of its round, and reports whether the
// loop may go on. It is Next, Key and Value without the checks that these repeat.
func (it Iterator) round(yield func(k, v []byte) bool) bool {
	for {
		c := it.at()
		if c == nil {
			return false
		}
		var value []byte
		switch e := c.visible.Entry; {
		case c.keysOnly:
		case e.Meta.Kind == base.KindPointer:
			if value = it.valueFromFile(c, e); c.err != nil {
				return false
			}
		default:
			value = c.tx.lend(e.Value)
		}
		if !yield(c.shownKey(), value) {
			return false
		}
		if !it.steady() || c.visible.Left() == 0 {
			return true
		}
		c.visible.Step()
		if c.escapes || invariant.Enabled {
			c.showKey()
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
