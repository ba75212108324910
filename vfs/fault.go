package vfs

import (
	"errors"
	"sync"
	"unsafe"
)

// mapped has the mappings of this process by their first address.
var mapped = struct {
	sync.Mutex
	at map[uintptr]mappedFile
}{at: map[uintptr]mappedFile{}}

// A mappedFile is the file and the length of a mapping.
type mappedFile struct {
	name string
	n    uintptr // bytes
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

var errPageLost = errors.New("mapped page is unreadable: the device failed or the file was truncated")

// MappingFault converts a recovered panic into an error if the panic is a fault on a
// page of a mapped file. The cause is a failed device or a truncated file. For every
// other panic, MappingFault returns nil. A fault panics only in goroutines that called
// debug.SetPanicOnFault; in others it ends the process.
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
		if at-start < m.n { // wraps around to a huge number if at is below start
			return &PathError{Op: OpRead.String(), Path: m.name, Err: errPageLost, class: ErrIO}
		}
	}
	return nil
}
