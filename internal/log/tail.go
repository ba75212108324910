package log

import (
	"errors"

	"github.com/stoatdb/stoat/vfs"
)

// SyncTail syncs the unproven tails of r in place. Prefer Create, which writes
// them again: if an earlier write-back failed and a tail is only in
// memory, the sync would not report it. SyncTail is for a disk without room
// for another segment.
func SyncTail(o Options, r Recovered) error {
	for _, t := range r.carry {
		f, err := o.FS.OpenReadWrite(o.path(t.ref.File), vfs.CatLog)
		if err == nil {
			err = errors.Join(f.SyncData(), f.Close())
		}
		if err != nil {
			return o.inFile(err, "sync", t.ref.File)
		}
	}
	return nil
}
