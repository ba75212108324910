package stoat

import (
	"runtime/debug"

	"github.com/stoatdb/stoat/internal/vfs"
)

// Bytes of tables and values are read through mappings. A page that cannot be
// read, because the device is lost or somebody cut the file, is a fault at
// whatever instruction touches it, also one of the user's that looks at
// borrowed bytes. The functions here make an error of it instead of the end of
// the process. Locks that are held by deferred unlocks alone may be held where
// that happens, and no others.

// guardRead runs fn in tx.
func guardRead(tx *Txn, fn func(tx *Txn) error) (err error) {
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if p := recover(); p != nil {
			err = faultOf(p)
		}
	}()
	return fn(tx)
}

// guard runs fn.
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

// faultOf returns the error that a panic stands for. One that has nothing to
// do with mapped files goes on.
func faultOf(panicked any) error {
	err := vfs.MappingFault(panicked)
	if err == nil {
		panic(panicked)
	}
	return err
}
