package memtable

import "github.com/stoatdb/stoat/vfs"

// offHeap is the memory that databases use.
type offHeap struct{}

func (offHeap) Alloc(n int) ([]byte, error) { return vfs.Alloc(n) }

func (offHeap) Free(b []byte) {
	if err := vfs.Free(b); err != nil {
		panic(err)
	}
}
