// Package fault turns faults in mapped files into errors.
//
// Tables and value files are read through mappings. A page that cannot be read
// faults at the instruction that touches it: the device is lost, or another
// program truncated the file. This package makes an error of such a fault
// instead of the end of the process.
//
// Code that may fault must hold locks only through deferred unlocks.
package fault

import (
	"runtime/debug"

	"github.com/stoatdb/stoat/vfs"
)

// A Scope is a stretch of one goroutine in which faults are panics.
type Scope bool

// Enter begins a scope on this goroutine. The caller defers Leave:
//
//	defer fault.Enter().Leave(&err)
func Enter() Scope { return Scope(debug.SetPanicOnFault(true)) }

// Leave ends the scope and stores the error of a fault in *err. Inside another
// scope it does nothing: the outer scope makes the error. It must be deferred
// directly, or recover would not see the panic.
func (inner Scope) Leave(err *error) {
	if inner {
		return
	}
	debug.SetPanicOnFault(false)
	if p := recover(); p != nil {
		*err = Of(p)
	}
}

// Guard runs fn and returns the error of a fault in it. It stops a fault also
// inside another scope, because fn may hold what other goroutines wait for.
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

// Of returns the error that a recovered panic stands for. A panic that has
// nothing to do with a mapping goes on.
func Of(panicked any) error {
	err := vfs.MappingFault(panicked)
	if err == nil {
		panic(panicked)
	}
	return err
}
