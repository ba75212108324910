package manifest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// A Store is an open manifest. Its methods are safe for concurrent use.
type Store struct {
	fs     vfs.FS
	dir    string
	random func() uint64
	seal   record.Sealer // nil if the manifest is not encrypted

	follows *following // nil unless Follow made the store
	// unproven is what Unproven returns; Load sets it.
	unproven bool

	// Stored under mu, loaded without it: readers of them never wait for the device. The
	// state of an edit is stored once the edit is durable, and before an error that follows.
	state atomic.Pointer[State]
	err   atomic.Pointer[error] // what later appends return, nil if there is none

	mu struct {
		sync.Mutex
		file journal
		// renew says that a new file must take over before the next append.
		renew bool
		// old are the numbers of superseded manifests to remove, ascending.
		old []uint64
	}
}

// A journal is one manifest file, open for writing.
type journal struct {
	number uint64
	file   vfs.File
	size   int64
	b      record.Builder
	// durable is the offset below which everything is known to be on the device.
	durable int64
	// end is the offset behind the last edit; chain is the checksum of its last
	// frame.
	end   int64
	chain uint64
	salt  uint64 // the salt in the header
	// marks counts the marks behind the last edit.
	marks int
}

var (
	errReadOnly   = errors.New("manifest: opened for reading only")
	errClosed     = errors.New("manifest: closed")
	errUnfinished = errors.New("the last edit did not return")
)

// Create makes the manifest of a new database in the existing directory dir. It
// is durable when Create returns. A crash before that leaves a directory
// without a manifest. random returns 64 random bits. seal makes the keys of an
// encrypted manifest; it is nil for a plain one.
func Create(fs vfs.FS, dir string, state State, random func() uint64, seal record.Sealer) (*Store, error) {
	l, err := list(fs, dir)
	if err != nil {
		return nil, err
	}
	if len(l.manifests) == 0 && l.data != "" {
		return nil, l.missing(dir)
	}
	return CreateFor(fs, dir, state, random, seal)
}

// CreateFor is Create for a database that is complete but for its manifest: the directory
// has the files of state, and their names are durable.
func CreateFor(fs vfs.FS, dir string, state State, random func() uint64, seal record.Sealer) (*Store, error) {
	l, err := listOnce(fs, dir)
	if err != nil {
		return nil, err
	}
	if len(l.manifests) > 0 {
		return nil, fmt.Errorf("manifest: create in %s: %w", dir, vfs.ErrExist)
	}
	if state, err = (State{}).Apply(state.snapshot()); err != nil {
		return nil, err
	}
	s := &Store{fs: fs, dir: dir, random: random, seal: seal}
	tmp, err := s.writeTemp(1, state)
	if err != nil {
		return nil, err
	}
	if err := s.adopt(tmp, nil); err != nil {
		return nil, err
	}
	s.mu.file = tmp
	s.state.Store(&state)
	return s, nil
}

// State returns the state after the last edit that is durable. It does not wait for an Append
// that is under way.
func (s *Store) State() State { return *s.state.Load() }

// Err returns the error that every later Append returns, or nil. After an error,
// no file that the state before or after the failed edit refers to may be deleted
// or overwritten. Err does not wait for an Append that is under way.
func (s *Store) Err() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Unproven reports whether the state may not be on the device. It may return true only if
// Load opened the store for reading only.
func (s *Store) Unproven() bool { return s.unproven }

// Append makes e durable. If Append fails after it began to write, a crash may keep or lose
// the edit. Then every later call fails, as it does after a panic of the file system. Nothing
// may delete a file that the state before or after the edit refers to. If Append fails earlier,
// because the edit cannot follow the state, is too long or lacks space, nothing has changed.
func (s *Store) Append(e Edit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	if err := e.checkLists(); err != nil {
		return err
	}
	state, err := s.State().Apply(e)
	if err != nil {
		return err
	}
	payload := e.AppendTo(nil)
	if len(payload) == 0 {
		return nil
	}
	ends := false
	defer func() {
		if !ends { // a file system of the caller panics, or ends the goroutine
			_ = s.failLocked("write", errUnfinished)
		}
	}()
	if !s.mu.renew && s.mu.file.fits(len(payload)) {
		err = s.appendLocked(payload, state)
	} else {
		err = s.takeOverLocked(state)
	}
	ends = true
	return err
}

// fits reports whether there is room for a record of n bytes, its mark, and the
// frames that Close writes.
func (j *journal) fits(n int) bool {
	return j.b.Offset()+record.Size(int64(n), record.MaxPayload)+record.FrameSize(0)+record.CloseRoom <= j.size
}

// appendLocked writes the record of an edit, syncs it, and then marks it as durable. The mark
// itself is not synced: it reaches the device with the next edit, with Close,
// or when the system writes it back. state is the one after the edit.
func (s *Store) appendLocked(payload []byte, state State) error {
	j := &s.mu.file
	j.b.Record(payload, j.durable)
	if err := j.write(); err != nil {
		return s.failLocked("write", err)
	}
	if mutant.On(mutant.NoManifestSync) {
		// The system writes the edit back.
	} else if err := j.file.SyncData(); err != nil {
		return s.failLocked("sync", err)
	}
	j.durable = j.b.Offset()
	j.end, j.chain = j.b.Offset(), j.b.Chain()
	s.state.Store(&state)
	j.b.Frame(record.Mark, nil, j.durable)
	j.marks = 1
	if err := j.write(); err != nil {
		// The edit is durable, but the store cannot append another one.
		_ = s.failLocked("write", err)
	}
	return nil
}

// write writes the built frames to the file.
func (j *journal) write() error {
	p, offset := j.b.Sealed()
	j.b.Reset()
	_, err := j.file.WriteAt(p, offset)
	return err
}

// failLocked poisons the store.
func (s *Store) failLocked(verb string, err error) error {
	err = s.wrap(verb, s.mu.file.number, err)
	s.err.Store(&err)
	return err
}

// wrap adds the action and the file to err.
func (s *Store) wrap(verb string, number uint64, err error) error {
	err = base.InFile(err, FileName(number))
	return fmt.Errorf("manifest: %s %s: %w", verb, s.path(number), err)
}

// path returns the path of the manifest with the given number.
func (s *Store) path(number uint64) string { return s.fs.Join(s.dir, FileName(number)) }

// Close durably marks the end of the file and closes it. It returns the error
// that poisoned the store, if there is one.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.file.file
	if f == nil {
		return nil
	}
	s.mu.file.file = nil
	switch err := s.Err(); {
	case err == errReadOnly:
		return f.Close()
	case err != nil:
		_ = f.Close() // the poisoning error says more
		return err
	}
	s.err.Store(&errClosed)
	var err error
	if !s.mu.renew {
		err = s.mu.file.finish(f)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return s.wrap("close", s.mu.file.number, err)
	}
	return nil
}

// finish marks the end of the file so that it survives damage, unless the marks
// are there already. The edits are durable before it.
func (j *journal) finish(f vfs.File) error {
	if j.marks >= record.FinishFrames || j.b.Offset()+record.CloseRoom > j.size {
		return f.SyncData()
	}
	j.b.Finish(record.Mark, j.durable)
	p, offset := j.b.Sealed()
	if _, err := f.WriteAt(p, offset); err != nil {
		return err
	}
	return f.SyncData()
}
