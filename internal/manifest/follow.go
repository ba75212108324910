package manifest

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// A following is what a store knows that reads the manifest beside the process that
// writes it. One goroutine uses it.
//
// It takes an edit over as soon as the edit verifies. If the writer's sync of that edit
// fails, the next writer may not have the edit, and appends others in its place. Next then
// reads the file anew. FlushedSeq may go back, and a file number may get another salt.
type following struct {
	number uint64
	salt   uint64 // in the header
	file   vfs.File
	size   int64       // of the file
	aead   cipher.AEAD // nil if the manifest is not encrypted
	r      *record.Reader
	state  State // after the last edit that was read
	// failed says that reading has failed in the middle: the manifest is read anew.
	failed bool
}

// openTries is how often Follow looks for the newest manifest, which a newer one may
// replace before it is open.
const openTries = 100

// Follow opens the manifest of a database for reading, while another process may write
// it. The errors are those of Load. State stays as it is until Adopt.
func Follow(fs vfs.FS, dir string, seal record.Sealer) (*Store, State, error) {
	s := &Store{fs: fs, dir: dir, seal: seal, follows: new(following)}
	s.err.Store(&errReadOnly)
	if err := s.followNewest(); err != nil {
		return nil, State{}, err
	}
	s.Adopt(s.follows.state)
	return s, s.State(), nil
}

// Next returns the newest state of the files, and whether it has changed since the last
// call.
func (s *Store) Next() (State, bool, error) {
	f := s.follows
	if f.failed {
		err := s.followNewest()
		return f.state, true, err
	}
	changed, err := f.advance(func(e *Edit) (err error) {
		f.state, err = f.state.Apply(*e)
		return err
	})
	if err != nil {
		f.failed = true
		return f.state, changed, s.wrap("follow", f.number, err)
	}
	superseded, err := s.superseded()
	if err == nil && !superseded {
		var kept bool
		kept, err = f.r.Kept()
		superseded = !kept
	}
	if err != nil || !superseded {
		return f.state, changed, err
	}
	err = s.followNewest()
	return f.state, true, err
}

// Adopt makes state, which Next returned, the state of the store.
func (s *Store) Adopt(state State) { s.state.Store(&state) }

// superseded reports whether there is a newer manifest. The next one has the next number.
// If several came meanwhile, the file that is open has lost its name.
func (s *Store) superseded() (bool, error) {
	_, err := s.fs.Stat(s.path(s.follows.number + 1))
	if err == nil || !errors.Is(err, vfs.ErrNotExist) {
		return err == nil, err
	}
	_, err = s.fs.Stat(s.path(s.follows.number))
	if errors.Is(err, vfs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// Replaced returns an error if the name of the manifest belongs to another file, whose header
// has another salt. Then another database has taken the place of the one that is followed.
func (s *Store) Replaced() error {
	f := s.follows
	file, err := s.fs.Open(s.path(f.number), vfs.CatManifest)
	if errors.Is(err, vfs.ErrNotExist) {
		return nil // Next looks for a newer one
	}
	if err != nil {
		return err
	}
	size, err := file.Size()
	var headers []record.Header
	if err == nil {
		headers, err = record.ReadHeaders(file, size, record.TypeManifest)
	}
	_ = file.Close() // it was only read
	switch {
	case err != nil:
		return s.wrap("follow", f.number, err)
	case len(headers) == 0:
		return s.wrap("follow", f.number, base.Corrupt(0, "manifest header", "none", "one"))
	case !slices.ContainsFunc(headers, func(h record.Header) bool { return h.Salt == f.salt }):
		return fmt.Errorf("%w: another database is in %s", base.ErrStale, s.dir)
	}
	return nil
}

// SyncAll makes durable what the manifest has now, and the names of all files. A manifest
// that is gone has a durable successor.
func (s *Store) SyncAll() error {
	l, err := list(s.fs, s.dir)
	for _, number := range l.manifests {
		if err == nil {
			err = s.sync(number)
		}
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	return err
}

func (s *Store) sync(number uint64) error {
	f, err := s.fs.Open(s.path(number), vfs.CatManifest)
	if errors.Is(err, vfs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = f.SyncData()
		_ = f.Close() // it was only read
	}
	if err != nil {
		err = s.wrap("sync", number, err)
	}
	return err
}

// Damaged returns an error if the manifest has damage behind what Next has read. If the
// writer has replaced the manifest meanwhile, the error means nothing.
func (s *Store) Damaged() error {
	if err := s.follows.damaged(); err != nil {
		return s.wrap("follow", s.follows.number, err)
	}
	return nil
}

// damaged returns an error if what follows is damaged: a frame that was once written does
// not verify. advance takes such a frame for one that is about to come.
func (f *following) damaged() error {
	next := func() *record.Reader {
		return record.ContinueReader(f.file, f.size, f.salt, f.aead, f.r.Offset(), f.r.Chain())
	}
	_, err := next().Next()
	if err == nil || err == io.EOF {
		return nil
	}
	// The writer may have written the frame after it was read, and later ones before they
	// were read.
	again := next()
	again.Follow()
	if _, e := again.Next(); e == nil {
		return nil
	}
	return err
}

// followNewest opens the newest manifest and reads it.
func (s *Store) followNewest() error {
	for try := 0; ; try++ {
		l, err := list(s.fs, s.dir)
		if err != nil {
			return err
		}
		if len(l.manifests) == 0 {
			return l.missing(s.dir)
		}
		number := l.newest()
		file, err := s.fs.Open(s.path(number), vfs.CatManifest)
		if errors.Is(err, vfs.ErrNotExist) && try < openTries {
			continue
		}
		if err != nil {
			return s.wrap("open", number, err)
		}
		fresh, err := follow(file, number, s.seal)
		if err != nil {
			_ = file.Close() // it was only read
			return s.wrap("follow", number, err)
		}
		if id := s.follows.state.ID; s.follows.r != nil && fresh.state.ID != id {
			_ = file.Close() // it was only read
			return fmt.Errorf("%w: another database is in %s", base.ErrStale, s.dir)
		}
		s.mu.Lock()
		old := s.mu.file.file
		s.mu.file = journal{number: number, file: file, salt: fresh.salt}
		s.mu.Unlock()
		*s.follows = *fresh
		if old != nil {
			return old.Close()
		}
		return nil
	}
}

// follow begins to read the manifest with the given number.
func follow(file vfs.File, number uint64, seal record.Sealer) (*following, error) {
	h, aead, err := readHeader(file, number, seal)
	if err != nil {
		return nil, err
	}
	f := &following{number: number, salt: h.Salt, file: file, size: h.Size, aead: aead,
		r: record.NewReader(file, h.Size, h.Salt, aead)}
	f.r.Follow()
	d := newDraftOfMany()
	apply := func(e *Edit) (err error) {
		f.state, err = f.state.apply(e, d)
		return err
	}
	rec, err := nextRecord(f.r, true)
	if err == nil {
		err = checkSnapshot(h.Size, rec.End)
	}
	if err == nil {
		err = applyRecord(&rec, apply)
	}
	if err == nil {
		_, err = f.advance(apply)
	}
	if err == nil {
		err = f.damaged()
	}
	if err == nil {
		err = f.state.finishAt(f.r.Offset(), d)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// advance reads what was written since the last call, and calls apply for each edit. It
// reports whether there was one.
func (f *following) advance(apply func(*Edit) error) (changed bool, err error) {
	for {
		rec, err := nextRecord(f.r, false)
		switch {
		case err == io.EOF:
			return changed, nil
		case err == nil && rec.Kind == record.Mark:
			continue
		case err == nil:
			err = applyRecord(&rec, apply)
		}
		if err != nil {
			return changed, err
		}
		changed = true
	}
}

// applyRecord calls apply for the edit of a record.
func applyRecord(rec *record.Frame, apply func(*Edit) error) error {
	e, err := DecodeEdit(rec.Payload)
	if err == nil {
		err = apply(&e)
	}
	if err == nil || errors.Is(err, base.ErrVersion) {
		return err
	}
	return base.Corrupt(rec.Offset, "edit", err, "an edit that can follow")
}
