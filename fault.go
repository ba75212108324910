package stoat

import (
	"runtime/debug"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
)

// View and Update guard the whole of the caller's function against faults in
// mapped files, also where the function looks at borrowed bytes. A transaction of
// Begin has no function, and several goroutines may use one transaction. So each
// method that reads mapped bytes enters a scope of its own too.

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
func (tx *Txn) get(v *view, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	if scope := fault.Enter(); scope {
		return tx.getGuarded(scope, v, key, hash)
	}
	return v.tree.Get(key, hash, tx.seq, &tx.state.decoded)
}

func (tx *Txn) getGuarded(scope fault.Scope, v *view, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	defer scope.Leave(&err)
	return v.tree.Get(key, hash, tx.seq, &tx.state.decoded)
}

// copyBorrowed appends borrowed bytes to dst.
func copyBorrowed(dst, borrowed []byte) (all []byte, err error) {
	defer fault.Enter().Leave(&err)
	all = dst // what is returned after a fault
	return append(all, borrowed...), nil
}
