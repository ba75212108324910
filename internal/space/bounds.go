package space

import (
	"fmt"

	"github.com/stoatdb/stoat/vfs"
)

const (
	// tablesMin is the number of full tables that a merge may read on any disk.
	tablesMin = 4
	// MergeMax is the number of bytes that a merge reads at most.
	MergeMax = 256 << 20
)

// MergeNeed returns how many bytes to keep for merges. It is what the next merge takes, but
// at most an eighth of all tables. It is at least the size of tablesMin tables, or of all
// tables if that is less.
func MergeNeed(next, all, tableSize int64) int64 {
	return max(min(next, all/8), min(all, tablesMin*tableSize))
}

// Merge returns how many bytes a merge should read at most, if the compactor has a
// choice, and how many it may write. So a flush beside it finds room. After a merge that
// failed, the next must write less.
func (r *Reserve) Merge() (input, output int64) {
	input = min(max(r.free.Load()/2, tablesMin*r.o.TableSize), MergeMax)
	output = r.copyMax()
	if short := r.shortMerge.Load(); short != nil {
		output = min(output, short.bytes/4*3)
	}
	return input, max(1, output) // 0 is no bound
}

// copyMax returns how many bytes one job may write. It is what the flush reserve leaves of
// the free bytes, or half of the free bytes if that is more.
func (r *Reserve) copyMax() int64 {
	free := r.free.Load()
	return max(free-r.flushReserve.Load(), free/2)
}

// Fits reports whether there is room for a copy of that many bytes.
func (r *Reserve) Fits(bytes uint64) bool { return bytes <= uint64(r.copyMax()) }

// WorthCopying reports whether the collector may try a copy of that many bytes. There must be
// room for it, and it must be far smaller than a copy that failed.
func (r *Reserve) WorthCopying(bytes uint64) bool {
	failed := r.shortCopy.Load()
	return r.Fits(bytes) && (failed == nil || int64(bytes) <= failed.bytes/2)
}

// Spare returns how many bytes others may add.
func (r *Reserve) Spare() int64 { return r.free.Load() - r.reserve.Load() }

// Sparing returns stop, which then also ends a job that leaves less free than the
// flush reserve: deletions must still get to the disk. If little was free at the
// beginning, the job leaves half of it.
func (r *Reserve) Sparing(stop func() error) func() error {
	half := r.free.Load() / 2
	return func() error {
		if err := stop(); err != nil {
			return err
		}
		free, err := r.o.FS.Free(r.o.Dir)
		if err == nil && free < uint64(min(half, r.flushNeed())) {
			return fmt.Errorf("only %d bytes are free; the log and flushes need them: %w", free, vfs.ErrNoSpace)
		}
		return nil
	}
}
