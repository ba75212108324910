package manifest

import (
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/vfs"
)

// Load opens the manifest of the database in dir. The error is vfs.ErrNotExist
// when there is no database at all, ErrMissing when there is one without a
// manifest, ErrUnknown or record.ErrVersion when a later version of stoat wrote
// it, and base.ErrCorrupt when it is damaged.
//
// With readOnly, Load and the store change nothing on disk. Otherwise what
// unfinished work has left is cleaned up, and the state that Load returns is
// durable.
func Load(fs vfs.FS, dir string, readOnly bool, random func() uint64) (*Store, State, error) {
	l, err := list(fs, dir)
	if err != nil {
		return nil, State{}, err
	}
	if len(l.manifests) == 0 {
		return nil, State{}, l.missing(dir)
	}
	s := &Store{fs: fs, dir: dir, random: random}
	number := l.manifests[len(l.manifests)-1]
	open := fs.OpenReadWrite
	if readOnly {
		open = fs.Open
		s.mu.err = errReadOnly
	}
	f, err := open(s.path(number), vfs.CatManifest)
	if err != nil {
		return nil, State{}, s.wrap("open", number, err)
	}
	tail, err := s.read(f, number)
	if err == nil && !readOnly {
		err = s.cleanUp(l, tail)
	}
	if err != nil {
		_ = s.mu.file.file.Close() // it was only read
		return nil, State{}, s.wrap("load", number, err)
	}
	return s, s.mu.state, nil
}

// A tail says what the end of a loaded manifest is like.
type tail struct {
	// edits says that there is anything behind the snapshot.
	edits bool
	// proven says that all of it is known to be durable, and that nothing
	// follows it.
	proven bool
}

// read reads the manifest with the given number from f, which becomes the
// file of the store.
func (s *Store) read(f vfs.File, number uint64) (tail, error) {
	j := &s.mu.file
	*j = journal{number: number, file: f}
	h, err := readHeader(f, number)
	if err != nil {
		return tail{}, err
	}
	j.size = h.Size
	r := record.NewReader(f, h.Size, h.Salt)
	t, err := s.replay(r)
	if err != nil {
		return tail{}, err
	}
	j.durable = r.Offset()
	j.b = record.ContinueBuilder(h.Salt, record.MaxPayload, r.Offset(), r.Chain())
	if t.proven {
		t.proven, err = isZero(f, r.Offset(), h.Size)
	}
	return t, err
}

// readHeader returns the header of the manifest with the given number.
func readHeader(f vfs.File, number uint64) (record.Header, error) {
	size, err := f.Size()
	if err != nil {
		return record.Header{}, err
	}
	headers, err := record.ReadHeaders(f, record.TypeManifest)
	if err != nil {
		return record.Header{}, err
	}
	got := "none"
	for _, h := range headers {
		if h.Number == number && h.File == number && h.Size == size {
			return h, nil
		}
		got = fmt.Sprintf("manifest %d of %d bytes", h.Number, h.Size)
	}
	return record.Header{}, base.Corrupt(0, "manifest header", got,
		fmt.Sprintf("manifest %d of %d bytes", number, size))
}

// replay folds the records of r into the state.
func (s *Store) replay(r *record.Reader) (tail, error) {
	var t tail
	for first := true; ; first = false {
		rec, err := r.NextRecord()
		if err == io.EOF && first {
			return t, noSnapshot(r)
		}
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t.edits = !first
		switch {
		case rec.Kind == record.Whole:
			if err := s.replayEdit(rec); err != nil {
				return t, err
			}
			t.proven = first
		case rec.Kind == record.Mark && !first:
			t.proven = rec.Durable == rec.Offset
		default:
			return t, base.Corrupt(rec.Offset, "frame in a manifest", rec.Kind, "whole or mark")
		}
	}
}

// noSnapshot is the error for a manifest without a snapshot. It never had the
// name of a manifest before the snapshot was durable.
func noSnapshot(r *record.Reader) error {
	if bad := r.Torn(); bad != nil {
		return bad
	}
	return base.Corrupt(record.Start, "snapshot", "none", "one")
}

// replayEdit applies one edit of the manifest.
func (s *Store) replayEdit(rec record.Record) error {
	e, err := DecodeEdit(rec.Payload)
	if err == nil {
		s.mu.state, err = s.mu.state.Apply(e)
	}
	switch {
	case err == nil, errors.Is(err, ErrUnknown):
		return err
	default:
		return base.Corrupt(rec.Offset, "edit", err, "one that can follow")
	}
}

// isZero reports whether f holds only zeros in [off, end).
func isZero(f io.ReaderAt, off, end int64) (bool, error) {
	b := make([]byte, min(zeroWrite, max(0, end-off)))
	for ; off < end; off += int64(len(b)) {
		b = b[:min(int64(len(b)), end-off)]
		if n, err := f.ReadAt(b, off); n < len(b) {
			return false, err
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// cleanUp removes what was left unfinished, and makes durable what is not
// proven to be.
func (s *Store) cleanUp(l listing, t tail) error {
	var old []string
	for _, number := range l.manifests[:len(l.manifests)-1] {
		old = append(old, s.path(number))
	}
	for _, name := range l.temps {
		old = append(old, s.fs.Join(s.dir, name))
	}
	// An edit is appended only after the name of the file is durable.
	if len(old) > 0 || !t.edits {
		if err := s.removeOld(old...); err != nil {
			return err
		}
	}
	if t.proven {
		return nil
	}
	if err := s.takeOverLocked(s.mu.state); err != nil {
		return err
	}
	return s.mu.err
}
