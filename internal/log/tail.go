package log

import (
	"errors"

	"github.com/stoatdb/stoat/vfs"
)

// SyncTail syncs the unproven tails of r in place, and the frames that lead from one to the
// next. A segment without unproven records may hold such a frame, so SyncTail syncs it, too.
//
// Prefer Create, which writes the tails again: if an earlier write-back failed and a tail is
// only in memory, the sync would not report it. SyncTail is for a disk without room for
// another segment.
func SyncTail(o Options, r Recovered) error {
	for _, ref := range r.unproven {
		f, err := o.FS.OpenReadWrite(o.path(ref.File), vfs.CatLog)
		if err == nil {
			err = errors.Join(f.SyncData(), f.Close())
		}
		if err != nil {
			return o.inFile(err, "sync", ref.File)
		}
	}
	return nil
}
