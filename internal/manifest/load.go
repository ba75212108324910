package manifest

import (
	"bytes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// Load opens the manifest of the database in dir. Its errors are:
//
//   - vfs.ErrNotExist: there is no database;
//   - ErrMissing: the database has no manifest;
//   - base.ErrVersion: a later version of stoat wrote it;
//   - base.ErrCorrupt: it is damaged.
//
// With readOnly, Load and the store change nothing on disk. Otherwise Load
// cleans up after unfinished work, and makes the returned state durable. Then
// the caller may delete files that the state does not name. An end of the file that
// is not proven goes to a new file. If the disk lacks space for that, Load writes the
// end again in place. Edits then fail until there is space. If that write fails as
// well, Load returns its error. On such a disk, Load also fails if a sync of the file's name
// has failed. A power cut may then bring back the manifest before, and the caller deletes
// its files.
//
// seal makes the keys of an encrypted manifest; it is nil for a plain one. The next edit
// of an encrypted manifest goes to a new file.
func Load(fs vfs.FS, dir string, readOnly bool, random func() uint64, seal record.Sealer) (*Store, State, error) {
	l, err := list(fs, dir)
	if err != nil {
		return nil, State{}, err
	}
	if len(l.manifests) == 0 {
		return nil, State{}, l.missing(dir)
	}
	s := &Store{fs: fs, dir: dir, random: random, seal: seal}
	number := l.newest()
	open := fs.OpenReadWrite
	if readOnly {
		open = fs.Open
		s.err.Store(&errReadOnly)
	}
	f, err := open(s.path(number), vfs.CatManifest)
	if err != nil {
		return nil, State{}, s.wrap("open", number, err)
	}
	proven, err := s.read(f, number)
	switch {
	case err != nil:
	case readOnly:
		s.unproven = !proven
	default:
		err = s.cleanUp(l, proven)
	}
	if err != nil {
		_ = s.mu.file.file.Close() // the error of Load says more
		return nil, State{}, s.wrap("load", number, err)
	}
	return s, s.State(), nil
}

// read reads the manifest with the given number from f, which becomes the file
// of the store. It reports whether the store can append to f: all of f is known
// to be durable, its name included, and only zeros follow.
func (s *Store) read(f vfs.File, number uint64) (proven bool, err error) {
	j := &s.mu.file
	*j = journal{number: number, file: f}
	h, aead, err := readHeader(f, number, s.seal)
	if err != nil {
		return false, err
	}
	j.size, j.salt = h.Size, h.Salt
	r := record.NewReader(f, h.Size, h.Salt, aead)
	state, proven, err := s.replay(r, h.Size)
	if err != nil {
		return false, err
	}
	s.state.Store(&state)
	j.b = record.ContinueBuilder(h.Salt, aead, r.Offset(), r.Chain())
	if !proven {
		return false, nil
	}
	proven, err = isZero(f, r.Offset(), h.Size)
	if proven && aead == nil { // the store appends nothing to a sealed file that was read
		err = j.buildMarks()
	}
	return proven, err
}

// buildMarks builds the marks behind the last edit again. So the first append writes them
// again, and its sync covers them. They may be in the memory of the system only: if the sync
// of Close fails, the system may take them for written. Without them a power cut would take
// the edits behind them.
func (j *journal) buildMarks() error {
	until := j.b.Offset()
	r := record.ContinueReader(j.file, until, j.salt, nil, j.end, j.chain)
	j.b = record.ContinueBuilder(j.salt, nil, j.end, j.chain)
	for j.b.Offset() < until {
		mark, err := r.Next()
		if err != nil {
			return err
		}
		j.b.Frame(mark.Kind, mark.Payload, mark.Durable)
	}
	return nil
}

// readHeader returns the header of the manifest with the given number, and the cipher of
// its frames.
func readHeader(f vfs.File, number uint64, seal record.Sealer) (record.Header, cipher.AEAD, error) {
	size, err := f.Size()
	if err != nil {
		return record.Header{}, nil, err
	}
	headers, err := record.ReadHeaders(f, size, record.TypeManifest)
	if err != nil {
		return record.Header{}, nil, err
	}
	want := fmt.Sprintf("manifest %d of %d bytes", number, size)
	var bad error = base.Corrupt(0, "manifest header", "none", want)
	for _, h := range headers {
		if h.Number != number || h.File != number || h.Size != size {
			bad = base.Corrupt(0, "manifest header", fmt.Sprintf("manifest %d of %d bytes", h.Number, h.Size), want)
			continue
		}
		aead, err := h.Open(seal)
		if err == nil {
			return h, aead, nil
		}
		bad = err
	}
	return record.Header{}, nil, bad
}

// replay folds the records of r into a state. size is the size of the file.
// It reports whether a mark follows the last edit, without the first frames of
// another one. Then everything is durable, and so is the file's name: the store
// appends nothing behind the snapshot before its name is durable.
func (s *Store) replay(r *record.Reader, size int64) (state State, marked bool, err error) {
	end, last := int64(0), int64(0) // ends of the last edit, and of the last edit or mark
	d := newDraftOfMany()
	for first := true; ; first = false {
		// The snapshot was durable before the manifest got its name.
		r.Demand(first)
		rec, err := nextRecord(r, first)
		switch {
		case err == io.EOF:
			err = state.finishAt(end, d)
			return state, err == nil && marked && r.Offset() == last, err
		case err != nil:
			return state, false, err
		}
		last = rec.End
		if rec.Kind == record.Mark {
			marked = rec.Durable >= end
			// The mark itself is not included: it was not synced, and after a kill
			// it may not be on the device yet.
			s.mu.file.durable = rec.Durable
			s.mu.file.marks++
			continue
		}
		if first {
			if err := checkSnapshot(size, rec.End); err != nil {
				return state, false, err
			}
		}
		// d carries the version.
		err = applyRecord(&rec, func(e *Edit) (err error) { state, err = state.apply(e, d); return err })
		if err != nil {
			return state, false, err
		}
		end = rec.End
		s.mu.file.end, s.mu.file.chain = end, rec.Checksum
		marked, s.mu.file.marks = false, 0
		if first {
			s.mu.file.durable = end
		}
	}
}

// nextRecord returns the next edit or mark of r. The first record is the snapshot. After the
// last one, the error is io.EOF.
func nextRecord(r *record.Reader, first bool) (record.Frame, error) {
	rec, err := r.NextRecord()
	switch {
	case err == io.EOF && first:
		return rec, base.Corrupt(record.Start, "snapshot", "none", "one")
	case err != nil, rec.Kind == record.Whole, rec.Kind == record.Mark && !first:
		return rec, err
	}
	return rec, base.Corrupt(rec.Offset, "frame in a manifest", rec.Kind, "whole or mark")
}

// checkSnapshot reports a file that is too large for a snapshot that ends at end.
func checkSnapshot(size, end int64) error {
	if most := sizeMax(end); size > most {
		return base.Corrupt(0, "size of the manifest", size, fmt.Sprintf("at most %d", most))
	}
	return nil
}

// finishAt is finish behind the last edit of a file, which ends at end. It checks the result.
func (s *State) finishAt(end int64, d *draft) error {
	s.finish(d)
	if err := s.Version.checkSize(); err != nil {
		return base.Corrupt(end, "state", err, "a valid state")
	}
	return nil
}

// isZero reports whether f holds only zeros in [off, end).
func isZero(f io.ReaderAt, off, end int64) (bool, error) {
	b := make([]byte, min(zeroWrite, max(0, end-off)))
	for ; off < end; off += int64(len(b)) {
		b = b[:min(int64(len(b)), end-off)]
		if n, err := f.ReadAt(b, off); n < len(b) {
			return false, err
		}
		// Each byte equals the one before it, and the first is zero.
		if b[0] != 0 || !bytes.Equal(b[1:], b[:len(b)-1]) {
			return false, nil
		}
	}
	return true, nil
}

// proveInPlace writes what may not be on the device again, and syncs it and the directory. A
// sync alone may skip it: after a sync that failed, the system may take it for written. The
// blocks are there already. A file system that never overwrites blocks may still lack space.
func (s *Store) proveInPlace() error {
	j := &s.mu.file
	p := make([]byte, j.b.Offset()-j.durable)
	if n, err := j.file.ReadAt(p, j.durable); n < len(p) {
		return err
	}
	if _, err := j.file.WriteAt(p, j.durable); err != nil {
		return err
	}
	if err := j.file.SyncData(); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

// cleanUp makes the state durable if it is not proven to be, and removes older
// manifests. It keeps them while the name of this one may still get lost.
func (s *Store) cleanUp(l listing, proven bool) error {
	s.mu.old = slices.Clone(l.manifests[:len(l.manifests)-1])
	if !proven {
		doubted := s.doubted() // of this file: another one may take over
		err := s.takeOverLocked(s.State())
		if s.Err() == nil && errors.Is(err, vfs.ErrNoSpace) && !doubted {
			s.mu.renew = true
			err = s.proveInPlace()
		}
		if err != nil {
			return err
		}
	}
	for _, name := range l.temps {
		_ = s.fs.Remove(s.fs.Join(s.dir, name)) // the next Load tries again
	}
	if s.mu.renew {
		return nil
	}
	s.removeOldLocked()
	// A crash may have lost edits behind the last one. Their nonces are used.
	s.mu.renew = proven && s.seal != nil && !mutant.On(mutant.ContinueSealed)
	return nil
}
