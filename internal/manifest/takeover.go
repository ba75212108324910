package manifest

import (
	"errors"

	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// roomMin is the least room for edits in a new file, in bytes. A file also
	// has room for twice its snapshot, so that snapshots are at most a third
	// of the written bytes.
	roomMin = 128 << 10
	// sizeUnit divides the size of every file, in bytes.
	sizeUnit = 4096
	// zeroWrite is the size of one write of zeros, in bytes.
	zeroWrite = 256 << 10
)

// sizeMax returns the largest valid size of a file whose snapshot ends at used.
// It is far above the sizes that fill chooses. It keeps Load from reading
// through a file that is only long.
func sizeMax(used int64) int64 { return used + max(16<<20, 16*(used-record.Start)) }

// takeOverLocked makes state durable as the snapshot of a new file, which
// replaces the current one. A failure before the rename, and a rename that lacks space,
// change nothing. Later failures poison the store.
func (s *Store) takeOverLocked(state State) error {
	old := s.mu.file
	tmp, err := s.writeTemp(old.number+1, state)
	if err != nil {
		return err
	}
	if err := s.adopt(tmp, old.file); err != nil {
		return err
	}
	s.mu.file, s.mu.renew = tmp, false
	s.state.Store(&state)
	s.mu.old = append(s.mu.old, old.number)
	s.removeOldLocked()
	return nil
}

// removeOldLocked removes manifests that a durable one has superseded, the oldest first. It
// keeps the successors of one that stays: followers look whether the next one is there. If
// files stay, or reappear after a crash, the next Load ignores them and tries again.
func (s *Store) removeOldLocked() {
	for len(s.mu.old) > 0 {
		if err := s.fs.Remove(s.path(s.mu.old[0])); err != nil && !errors.Is(err, vfs.ErrNotExist) {
			return
		}
		s.mu.old = s.mu.old[1:]
	}
}

// writeTemp writes a manifest with the given number under its temporary name,
// with state as its snapshot. Everything but that name is durable. The file stays
// open: after the rename, a failure to open it again could not be undone.
//
// If the disk lacks space for the usual room, writeTemp makes a file with almost no room.
// The edits that free space must get into the manifest first. The next file then follows
// soon.
func (s *Store) writeTemp(number uint64, state State) (journal, error) {
	j, err := s.writeTempWith(number, state, roomMin)
	if errors.Is(err, vfs.ErrNoSpace) {
		return s.writeTempWith(number, state, 0)
	}
	return j, err
}

// writeTempWith is writeTemp for a file with room for at least that many bytes of
// edits. Unless room is 0, the file has room for twice its snapshot, too.
func (s *Store) writeTempWith(number uint64, state State, room int64) (journal, error) {
	j := journal{number: number}
	temp := s.path(number) + tempSuffix
	if err := s.fs.Remove(temp); err != nil && !errors.Is(err, vfs.ErrNotExist) {
		return j, s.wrap("create", number, err)
	}
	f, err := s.fs.Create(temp, vfs.CatManifest)
	if err != nil {
		return j, s.wrap("create", number, err)
	}
	if err := j.fill(f, state, s.random(), room, s.seal); err != nil {
		_ = f.Close()
		// Load ignores the file, and removes it if this fails.
		_ = s.fs.Remove(temp)
		return j, s.wrap("create", number, err)
	}
	j.file = f
	return j, nil
}

// fill writes header, snapshot and zeros for the room, and syncs.
func (j *journal) fill(f vfs.File, state State, salt uint64, room int64, seal record.Sealer) error {
	e := state.snapshot()
	if err := e.checkLists(); err != nil {
		return err
	}
	snapshot := e.AppendTo(nil)
	length := record.Size(int64(len(snapshot)), record.MaxPayload)
	used := record.Start + length
	if room > 0 {
		room = max(room, 2*length)
	}
	j.size = used + max(room, record.CloseRoom)
	j.size = (j.size + sizeUnit - 1) / sizeUnit * sizeUnit
	header := record.Header{Type: record.TypeManifest, Number: j.number, File: j.number, Salt: salt, Size: j.size}
	aead, err := header.Seal(seal)
	if err != nil {
		return err
	}
	j.b = record.NewBuilder(salt, record.MaxPayload, aead)
	j.b.Record(snapshot, 0)
	frames, _ := j.b.Sealed()
	invariant.Check(int64(len(frames)) == length, "the snapshot has %d bytes, expected %d", len(frames), length)
	j.durable = used
	j.end, j.chain, j.salt = used, j.b.Chain(), salt
	head := append(record.AppendHeader(make([]byte, 0, used), header), frames...)
	// The memory of the snapshot goes: edits need little.
	j.b = record.ContinueBuilder(salt, aead, used, j.chain)

	// All blocks are written below, whether reserved or not.
	if _, err := f.Preallocate(0, j.size); err != nil {
		return err
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return err
	}
	zeros := make([]byte, min(zeroWrite, j.size-used))
	for off := used; off < j.size; off += int64(len(zeros)) {
		zeros = zeros[:min(int64(len(zeros)), j.size-off)]
		if _, err := f.WriteAt(zeros, off); err != nil {
			return err
		}
	}
	return f.SyncData()
}

// adopt durably gives a written manifest its final name. It closes old, the file that the
// manifest supersedes, unless that is nil. If adopt fails, it closes the manifest, and poisons
// the store unless nothing has changed.
func (s *Store) adopt(j journal, old vfs.File) error {
	path := s.path(j.number)
	err := s.fs.Rename(path+tempSuffix, path)
	renamed := err == nil
	if renamed {
		if old != nil {
			_ = old.Close() // the manifest has all of it
		}
		err = s.syncName()
	}
	if err == nil {
		return nil
	}
	_ = j.file.Close()         // its content has been synced
	if renamed && old != nil { // without an old one, none comes back
		s.noteDoubt(path)
	}
	poisons := renamed || !errors.Is(err, vfs.ErrNoSpace) || !s.withdraw(path)
	if err = s.wrap("rename", j.number, err); poisons {
		s.err.Store(&err)
	}
	return err
}

// syncName makes the name of a new manifest durable. Without a free descriptor, SyncDir syncs
// nothing and may be repeated: adopt has just closed a file.
func (s *Store) syncName() error {
	if mutant.On(mutant.NoDirSync) {
		return nil
	}
	err := s.fs.SyncDir(s.dir)
	if errors.Is(err, vfs.ErrTooManyFiles) {
		err = s.fs.SyncDir(s.dir)
	}
	return err
}

// noteDoubt notes that a power cut may take the name path, although the next sync of the
// directory may succeed. The note is an empty file with the temporary name. Without the note,
// Load relies on that sync.
func (s *Store) noteDoubt(path string) {
	if note, err := s.fs.Create(path+tempSuffix, vfs.CatManifest); err == nil {
		_ = note.Close() // it is empty
	}
}

// doubted reports whether there is a note about the name of the current file. A file with
// content is no note: a power cut may leave both names of a rename.
func (s *Store) doubted() bool {
	info, err := s.fs.Stat(s.path(s.mu.file.number) + tempSuffix)
	return err == nil && info.Size == 0
}

// withdraw removes the temporary file after a failed rename to path. It reports true if it is
// certain that the rename did not happen: the temporary name was there, and path is not. A
// later Load would take a file at path for the newest manifest.
func (s *Store) withdraw(path string) bool {
	if s.fs.Remove(path+tempSuffix) != nil {
		return false
	}
	_, err := s.fs.Stat(path)
	return errors.Is(err, vfs.ErrNotExist)
}
