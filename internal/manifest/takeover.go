package manifest

import (
	"errors"

	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// roomMin is the least room for edits in a new file, in bytes. A file has
	// room for twice its snapshot, so that snapshots are at most a third of
	// what is written.
	roomMin = 128 << 10
	// sizeUnit divides the size of every file.
	sizeUnit = 4096
	// zeroWrite is how many bytes are written at once.
	zeroWrite = 256 << 10
)

// sizeMax returns the largest size of a file whose snapshot ends at used. It is far
// from the size that is chosen below: it keeps a reader from going through a file
// that is nothing but long.
func sizeMax(used int64) int64 { return used + max(16<<20, 16*(used-record.Start)) }

// takeOverLocked makes state durable as the snapshot of a new file, which
// takes the place of the current one. Until the new one is renamed, a failure
// leaves everything as it was.
func (s *Store) takeOverLocked(state State) error {
	old := s.mu.file
	tmp, err := s.writeTemp(old.number+1, state)
	if err != nil {
		return err
	}
	if err := s.adopt(tmp); err != nil {
		s.mu.err = err
		return err
	}
	s.mu.file, s.mu.unproven = tmp, false
	_ = old.file.Close() // everything in it has been superseded
	s.removeOld(s.path(old.number))
	return nil
}

// removeOld removes a file that means nothing any more. Should it stay, or come
// back after a crash, the next Load passes over it, and tries again.
func (s *Store) removeOld(path string) { _ = s.fs.Remove(path) }

// writeTemp writes the manifest with the given number and state as its
// snapshot, under its temporary name, durable but for that name. It stays open:
// once it has its final name, there is no way back.
//
// Where there is no space for the usual room, next to none has to do: what gives
// space back must get into the manifest first. Then soon the next file is written.
func (s *Store) writeTemp(number uint64, state State) (journal, error) {
	j, err := s.writeTempWith(number, state, roomMin)
	if errors.Is(err, vfs.ErrNoSpace) {
		return s.writeTempWith(number, state, 0)
	}
	return j, err
}

// writeTempWith is writeTemp for a file that has room for edits of so many bytes at
// least, and for twice its snapshot unless that is 0.
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
	if err := j.fill(f, state, s.random(), room); err != nil {
		_ = f.Close()
		// Loading ignores it, and removes it if this does not.
		_ = s.fs.Remove(temp)
		return j, s.wrap("create", number, err)
	}
	j.file = f
	return j, nil
}

// fill writes header, snapshot and room, and syncs.
func (j *journal) fill(f vfs.File, state State, salt uint64, room int64) error {
	j.b = record.NewBuilder(salt, record.MaxPayload)
	j.b.Record(state.snapshot().AppendTo(nil), 0)
	frames, _ := j.b.Sealed()
	used := record.Start + int64(len(frames))
	if room > 0 {
		room = max(room, 2*int64(len(frames)))
	}
	j.size = used + max(room, record.CloseRoom)
	j.size = (j.size + sizeUnit - 1) / sizeUnit * sizeUnit
	j.durable = used
	j.end, j.chain, j.salt = used, j.b.Chain(), salt
	head := record.AppendHeader(make([]byte, 0, used), record.Header{Type: record.TypeManifest,
		Number: j.number, File: j.number, Salt: salt, Size: j.size})
	head = append(head, frames...)
	j.b.Reset()

	// All of it is written below, be it reserved or not.
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

// adopt gives a written manifest its final name, durably. If it cannot, it
// closes it.
func (s *Store) adopt(j journal) error {
	path := s.path(j.number)
	err := s.fs.Rename(path+tempSuffix, path)
	if err == nil && !mutant.On(mutant.NoDirSync) {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		_ = j.file.Close() // what is in it has been synced
		return s.wrap("rename", j.number, err)
	}
	return nil
}
