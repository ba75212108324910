package log

import (
	"crypto/cipher"
	"fmt"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// lanes is the number of syncs of one segment that may run at once.
const lanes = 2

// A segment is a segment that is being written, or prepared for writing.
type segment struct {
	// Immutable once prepared.

	ref     base.SegmentRef
	size    int64
	written bool // see segmentFile
	// aead seals the frames. It is nil if the log is not encrypted.
	aead cipher.AEAD
	// file is the handle for writing, and for the sync of a segment that is
	// full or closed.
	file vfs.File
	// lanes are more handles of the same file, one for each concurrent Sync.
	// The system reports a failed write-back once per handle that was open.
	// If two syncs shared a handle, one of them could succeed although its data
	// was lost. prepare opens them before the first frame is written.
	lanes [lanes]vfs.File

	// durable is the offset below which everything is known to be on the device. It is 0
	// while that is not known of the segments before. Once the segment is the current one, it
	// changes under Writer.mu.
	durable atomic.Int64

	announced bool // WillWrite was called; guarded by the caller's commit mutex

	// Guarded by Writer.mu.

	flushed reach    // what has been written
	proven  boundary // behind the last record known to be on the device
	busy    [lanes]bool
	retired bool // no more syncs will start; the last one closes the files
}

// A reach says how far a segment is written or synced.
type reach struct {
	offset int64
	end    boundary // behind the last record below offset
}

// syncedLocked notes that all of r is on the device. The caller holds Writer.mu.
func (s *segment) syncedLocked(r reach) {
	if r.offset > s.durable.Load() {
		s.durable.Store(r.offset)
		s.proven = r.end
	}
}

// inDirectory returns the segment's file as a segmentFile.
func (s *segment) inDirectory() segmentFile {
	return segmentFile{number: s.ref.Number, file: s.ref.File, size: s.size, written: s.written}
}

// limit returns the offset at which the room for records ends.
func (s *segment) limit() int64 { return s.size - tailRoom }

// segmentSize returns the size of a segment for records that take n bytes.
func segmentSize(n int64) int64 {
	n += record.Start + tailRoom
	return (n + sizeUnit - 1) / sizeUnit * sizeUnit
}

// newSegment makes a segment in a new file. It writes all blocks, unless sparse
// is set, their space is reserved and size exceeds wholeSize. The directory
// entry is durable before the header. So any file with a header can be
// recycled, even after a crash.
func (o *Options) newSegment(ref base.SegmentRef, size int64, sparse bool) (*segment, error) {
	path := o.path(ref.File)
	f, err := o.FS.Create(path, vfs.CatLog)
	if err != nil {
		return nil, o.inFile(err, "create", ref.File)
	}
	s := &segment{ref: ref, size: size, file: f}
	if !mutant.On(mutant.NoDirSync) {
		err = o.FS.SyncDir(o.Dir)
	}
	reserved := false
	if err == nil {
		reserved, err = f.Preallocate(0, size)
	}
	if err == nil {
		err = s.prepare(o, sparse && reserved && size > wholeSize)
	}
	if err != nil {
		s.close()
		// Nothing refers to the file. If the removal fails, the next recovery
		// finds the file free.
		_ = o.FS.Remove(path)
		return nil, o.inFile(err, "create", ref.File)
	}
	return s, nil
}

// recycleSegment makes a segment in a free file, whose length stays. Unless
// sparse is set, it writes all blocks if they are not known to be written.
func (o *Options) recycleSegment(ref base.SegmentRef, free segmentFile, sparse bool) (*segment, error) {
	f, err := o.FS.OpenReadWrite(o.path(ref.File), vfs.CatLog)
	if err != nil {
		return nil, o.inFile(err, "recycle", ref.File)
	}
	s := &segment{ref: ref, size: free.size, written: free.written || free.size <= wholeSize, file: f}
	if err := s.prepare(o, sparse); err != nil {
		s.close()
		return nil, o.inFile(err, "recycle", ref.File)
	}
	return s, nil
}

// prepare writes all blocks, unless sparse is set or they are written already.
// It then opens the lanes, writes the header, and makes the file durable.
func (s *segment) prepare(o *Options, sparse bool) (err error) {
	if !sparse && !s.written {
		if err := writeZeros(s.file, record.Start, s.size); err != nil {
			return err
		}
		s.written = true
	}
	for i := range s.lanes {
		if s.lanes[i], err = o.FS.OpenReadWrite(s.file.Name(), vfs.CatLog); err != nil {
			s.lanes[i] = nil
			return err
		}
	}
	header := record.Header{Type: record.TypeLog,
		Number: s.ref.Number, File: s.ref.File, Salt: s.ref.Salt, Size: s.size}
	if s.aead, err = header.Seal(o.Seal); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(record.AppendHeader(nil, header), 0); err != nil {
		return err
	}
	if mutant.On(mutant.NoHeaderSync) {
		// Nothing makes the header durable.
	} else if err := s.file.SyncData(); err != nil {
		return err
	}
	start := startOf(s.ref.Salt)
	s.flushed, s.proven = reach{record.Start, start}, start
	s.durable.Store(record.Start)
	return nil
}

// close closes the files.
func (s *segment) close() {
	closeQuietly(s.file)
	for _, f := range s.lanes {
		if f != nil {
			closeQuietly(f)
		}
	}
}

// inUse reports whether a sync is running on a lane. The caller holds Writer.mu.
func (s *segment) inUse() bool { return s.busy != [lanes]bool{} }

const (
	// zeroWrite is the size in bytes of one write of zeros.
	zeroWrite = 1 << 20
	// zeroSync is the number of bytes of zeros between syncs. It bounds how
	// long a commit that syncs at the same time waits.
	zeroSync = 4 << 20
)

// writeZeros writes zeros to [off, end) of f.
func writeZeros(f vfs.File, off, end int64) error {
	zeros := make([]byte, min(zeroWrite, end-off))
	for unsynced := 0; off < end; {
		n := int(min(int64(len(zeros)), end-off))
		if _, err := f.WriteAt(zeros[:n], off); err != nil {
			return fmt.Errorf("write zeros: %w", err)
		}
		off += int64(n)
		if unsynced += n; unsynced >= zeroSync {
			unsynced = 0
			if err := f.SyncData(); err != nil {
				return err
			}
		}
	}
	return nil
}
