package stoat

import (
	"runtime/debug"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// Bytes of tables and values are read through mappings. A page that cannot be
// read, because the device is lost or somebody cut the file, is a fault at
// whatever instruction touches it, also one of the user's that looks at
// borrowed bytes. The functions here make an error of it instead of the end of
// the process. Locks that are held by deferred unlocks alone may be held where
// that happens, and no others.
//
// View and Update guard the whole of the user's function, on the goroutine that
// runs it. Begin has no function, and a transaction may be used by other
// goroutines. Therefore what reads mapped bytes on a user's behalf is guarded
// call by call, too, unless the goroutine is already: to ask costs a nanosecond,
// a guard ten.

// guarded makes faults of this goroutine panics, and reports whether they were
// before: then somebody up the stack makes errors of them. Otherwise the caller
// has to, by a deferred unguard.
func guarded() bool { return debug.SetPanicOnFault(true) }

// unguard ends what guarded began, and gives *err the error of a fault. It is to
// be deferred itself.
func unguard(err *error) {
	debug.SetPanicOnFault(false)
	if p := recover(); p != nil {
		*err = faultOf(p)
	}
}

// guardRead runs fn in tx.
func guardRead(tx *Txn, fn func(tx *Txn) error) (err error) {
	if fn == nil {
		return errNoFunction
	}
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if p := recover(); p != nil {
			err = faultOf(p)
		}
	}()
	return fn(tx)
}

// guard runs fn, which may hold what somebody waits for: whatever the goroutine
// was before, a fault ends here.
func guard(fn func() error) (err error) {
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if p := recover(); p != nil {
			err = faultOf(p)
		}
	}()
	return fn()
}

// get looks key up in the tree of v.
func (tx *Txn) get(v *view, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	if guarded() {
		return v.tree.Get(key, hash, tx.seq, &tx.decoded)
	}
	return tx.getGuarded(v, key, hash)
}

func (tx *Txn) getGuarded(v *view, key []byte, hash uint64) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	defer unguard(&err)
	return v.tree.Get(key, hash, tx.seq, &tx.decoded)
}

// copyBorrowed appends borrowed bytes to dst.
func copyBorrowed(dst, borrowed []byte) (all []byte, err error) {
	if !guarded() {
		defer unguard(&err)
	}
	all = dst // what is returned after a fault
	return append(all, borrowed...), nil
}

// faultOf returns the error that a panic stands for. One that has nothing to
// do with mapped files goes on.
func faultOf(panicked any) error {
	err := vfs.MappingFault(panicked)
	if err == nil {
		panic(panicked)
	}
	return err
}
