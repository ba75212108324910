package log

import (
	"errors"

	"github.com/stoatdb/stoat/vfs"
)

// SyncTail makes what r says is unproven durable where it lies. It is second
// to Create, which writes it again: were the tail in memory only because an
// earlier write-back of it failed, the system would not tell. It is for a disk
// without room for another segment.
func SyncTail(o Options, r Recovered) error {
	if r.carry.empty() {
		return nil
	}
	file := r.carry.ref.File
	f, err := o.FS.OpenReadWrite(o.path(file), vfs.CatLog)
	if err != nil {
		return o.inFile(err, "open", file)
	}
	if err := errors.Join(f.SyncData(), f.Close()); err != nil {
		return o.inFile(err, "sync", file)
	}
	return nil
}
