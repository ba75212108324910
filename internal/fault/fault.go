// Package fault turns faults in mapped files into errors.
//
// Bytes of tables and values are read through mappings. A page that cannot be
// read, because the device is lost or another process cut the file, faults at
// the instruction that touches it. Unguarded, the fault ends the process. A fault
// may leave locks held, except those that a deferred call unlocks.
//
// A guard belongs to one goroutine. It is cheap to nest: Enter costs a nanosecond
// on a goroutine that is guarded already, and ten on others.
package fault

import (
	"runtime/debug"

	"github.com/stoatdb/stoat/vfs"
)

// A Scope is a stretch of a function in which faults are panics. Its value
// reports whether this scope turned the guard on, so that its Leave turns the
// guard off.
type Scope bool

// Enter begins a scope. The caller defers Leave at once:
//
//	defer fault.Enter().Leave(&err)
//
// Where a View reads often, the caller defers Leave only if the scope is true.
func Enter() Scope { return Scope(!debug.SetPanicOnFault(true)) }

// Leave ends the scope, and sets *err if the scope ends by a fault. It must be
// deferred itself. In a scope within another it does nothing: the outer scope
// takes the fault.
func (s Scope) Leave(err *error) {
	if !s {
		return
	}
	debug.SetPanicOnFault(false)
	if p := recover(); p != nil {
		*err = Of(p)
	}
}

// Guard returns what fn returns, or the error of a fault that ends fn. Unlike a
// scope it takes the fault also where the goroutine was guarded before.
func Guard(fn func() error) (err error) {
	was := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(was)
		if p := recover(); p != nil {
			err = Of(p)
		}
	}()
	return fn()
}

// Of returns the error that a recovered panic stands for. It panics again if the
// panic is no fault in a mapped file.
func Of(panicked any) error {
	err := vfs.MappingFault(panicked)
	if err == nil {
		panic(panicked)
	}
	return err
}
