package stoat

import (
	"runtime/debug"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/state"
)

// View and Update guard the whole of the caller's function against faults in
// mapped files, on the goroutine that runs it; see package fault. Begin has no
// function, and other goroutines may use a transaction. So each method that reads
// mapped bytes guards itself, too.

// guardRead runs fn in tx.
func guardRead(tx *Txn, fn func(tx *Txn) error) (err error) {
	if fn == nil {
		return errNoFunction
	}
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if p := recover(); p != nil {
			err = fault.Of(p)
		}
	}()
	return fn(tx)
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

// copyBorrowed appends borrowed bytes to dst.
func copyBorrowed(dst, borrowed []byte) (all []byte, err error) {
	defer fault.Enter().Leave(&err)
	all = dst // what is returned after a fault
	return append(all, borrowed...), nil
}
