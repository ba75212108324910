package vfs

import (
	"errors"
	"sync"
	"unsafe"
)

// mapped knows where the mappings of this process lie, by their first address.
var mapped = struct {
	sync.Mutex
	at map[uintptr]mappedFile
}{at: map[uintptr]mappedFile{}}

// A mappedFile is the name and the length of a mapping.
type mappedFile struct {
	name string
	n    uintptr
}

func noteMapping(data []byte, name string) {
	mapped.Lock()
	defer mapped.Unlock()
	mapped.at[addressOf(data)] = mappedFile{name: name, n: uintptr(len(data))}
}

func forgetMapping(data []byte) {
	mapped.Lock()
	defer mapped.Unlock()
	delete(mapped.at, addressOf(data))
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

var errPageLost = errors.New("a mapped page cannot be read: the device or the file is gone")

// MappingFault returns the error that a recovered panic stands for when it is
// a fault on a page of a mapped file: the device failed, or somebody cut the
// file. For every other panic it returns nil. The runtime panics instead of
// ending the process on goroutines that asked for it by debug.SetPanicOnFault.
func MappingFault(panicked any) error {
	fault, ok := panicked.(interface {
		error
		Addr() uintptr
	})
	if !ok {
		return nil
	}
	at := fault.Addr()
	mapped.Lock()
	defer mapped.Unlock()
	for start, m := range mapped.at {
		if at-start < m.n { // the difference of an address before it is huge
			return &PathError{Op: OpRead.String(), Path: m.name, Err: errPageLost, class: ErrIO}
		}
	}
	return nil
}
