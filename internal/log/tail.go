package log

import (
	"errors"

	"github.com/stoatdb/stoat/vfs"
)

// SyncTail syncs the unproven tail of r in place. Prefer Create, which writes
// the tail again: if an earlier write-back failed and the tail is only in
// memory, the sync would not report it. SyncTail is for a disk without room
// for another segment.
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
