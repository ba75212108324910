package manifest

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// Verify reads the manifest file again, up to its end at the time of the call. It compares
// the result with the state at that time. The error is a base.CorruptionError, or that of a
// file that cannot be read. Appends may run meanwhile. Of a store that follows, Verify
// reads the newest manifest and compares nothing.
func (s *Store) Verify() error {
	if s.follows != nil {
		fresh, _, err := Follow(s.fs, s.dir, s.seal)
		if err == nil {
			err = fresh.Close()
		}
		return err
	}
	s.mu.Lock()
	j, state := s.mu.file, s.State()
	// A later takeover removes only the name.
	f, err := s.fs.Open(s.path(j.number), vfs.CatManifest)
	s.mu.Unlock()
	if err == nil {
		err = j.verify(f, state, s.seal)
		_ = f.Close() // f was only read
	}
	if err != nil {
		return s.wrap("verify", j.number, err)
	}
	return nil
}

// verify compares f with what j has written to it. The edits must produce state.
func (j *journal) verify(f vfs.File, state State, seal record.Sealer) error {
	h, aead, err := readHeader(f, j.number, seal)
	if err != nil {
		return err
	}
	if h.Salt != j.salt {
		return base.Corrupt(0, "salt of the manifest", h.Salt, j.salt)
	}
	var read Store
	r := record.NewReader(f, j.end, h.Salt, aead)
	again, _, err := read.replay(r, h.Size)
	if err != nil {
		return err
	}
	if bad := r.Torn(); bad != nil {
		return bad
	}
	if r.Offset() != j.end || r.Chain() != j.chain {
		return base.Corrupt(r.Offset(), "end of the edits", r.Offset(), j.end)
	}
	if !bytes.Equal(again.snapshot().AppendTo(nil), state.snapshot().AppendTo(nil)) {
		return base.Corrupt(j.end, "state after the edits", "a different state", "the state in memory")
	}
	return nil
}
