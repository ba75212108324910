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

// SyncAll makes durable what the files of the log in a directory have now, while another
// process may write, create and free them. A file that is gone was freed: the tables of a
// durable manifest have its transactions.
func SyncAll(o Options) error {
	files, err := o.listFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := o.syncFile(file); err != nil && !errors.Is(err, vfs.ErrNotExist) {
			return o.inFile(err, "sync", file)
		}
	}
	return nil
}

func (o *Options) syncFile(file uint64) error {
	f, err := o.FS.Open(o.path(file), vfs.CatLog)
	if err != nil {
		return err
	}
	defer closeQuietly(f)
	return f.SyncData()
}
