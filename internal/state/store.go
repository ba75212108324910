package state

import (
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/readers"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// Options are what a Store is made of.
type Options struct {
	FS       vfs.FS
	Dir      string
	ReadOnly bool
	// Follows says that another process writes the database: the store shows what
	// Follow gives it, and deletes no file.
	Follows  bool
	Clock    base.Clock
	Executor *work.Executor
	Report   event.Sink
	// MemtableSize and MemoryBudget are the options of the database, in bytes.
	MemtableSize, MemoryBudget int64

	// Manifest is open, and State is what it says.
	Manifest *manifest.Store
	State    manifest.State
	// Files returns the open files of the database. It is called once; closed
	// reports whether the database has been closed.
	Files func(closed func() bool) *tree.Files
	// Freed is called when the last reader has ended after Shut: it frees what
	// readers use beside files and memtables.
	Freed func()
}

// Hooks are how a Store tells others of changes. They are set before the first
// job starts.
type Hooks struct {
	// Installed is called after each edit, one call at a time.
	Installed func(state *manifest.State, edit *manifest.Edit)
	// Sweep wakes the goroutine that calls Sweep.
	Sweep func()
	// Swept is called when obsolete files were looked at. freed says that some
	// were deleted.
	Swept func(freed bool)
	// Failed is called with the error of a job that no caller waits for.
	Failed func(err error)
}

// A Store holds the state of one open database.
type Store struct {
	// Immutable after New.
	o        Options
	exec     *work.Executor
	manifest *manifest.Store
	files    *tree.Files
	readers  *readers.Registry[Reader]
	attended atomic.Uint64 // how many slots without a snapshot were taken
	hooks    Hooks         // immutable after SetHooks
	Memory   Memory

	// Atomics that readers load. visible is the newest version that they see, and
	// view holds everything up to it.
	visible atomic.Uint64
	view    atomic.Pointer[View]
	closed  atomic.Bool

	nextFile  atomic.Uint64         // the number of the next file
	namesLost atomic.Pointer[error] // of SyncNames, nil unless it failed for good

	shown atomic.Uint64 // odd while Follow replaces the view and the visible version

	clock     clock
	horizon   horizon
	published publications
	obsolete  obsolete

	installing lock.Mutex[lock.Installing] // held to append an edit and to show its view
	changing   lock.Mutex[lock.Changing]   // held to replace view

	shutting struct {
		lock.Mutex[lock.Shutting]
		due  bool // Close no longer needs the memory
		done bool // the memory was given back
	}

	_ [64]byte // every commit stores applied, and readers load the fields above
	// applied is the newest version that is in the view, at least visible. A power cut may
	// take the versions after visible.
	applied atomic.Uint64
}

// New returns the store of a database as its manifest tells it, with an empty
// memtable.
func New(o Options) *Store {
	s := &Store{o: o, exec: o.Executor, manifest: o.Manifest, readers: readers.NewRegistry[Reader](!o.Executor.Manual)}
	s.Memory.init(o.MemtableSize)
	s.clock.restore(o.State.ClockHighMs)
	s.clock.lead.Store(s.clock.ahead())
	s.nextFile.Store(o.State.NextFile)
	s.files = o.Files(s.Closed)
	s.view.Store(newView(s.Memory.NewTable(0), s.files.View(o.State.Version, nil), s.NextFile()))
	return s
}

// SetHooks sets the hooks.
func (s *Store) SetHooks(h Hooks) { s.hooks = h }

// Dir returns the directory of the database.
func (s *Store) Dir() string { return s.o.Dir }

// FS returns its file system.
func (s *Store) FS() vfs.FS { return s.o.FS }

// Files returns the open tables and value files.
func (s *Store) Files() *tree.Files { return s.files }

// State returns the durable state: what the manifest says.
func (s *Store) State() manifest.State { return s.manifest.State() }

// Version returns the files of the durable state.
func (s *Store) Version() *manifest.Version { return s.manifest.State().Version }

// EditErr returns the error that ended all edits, if one did: that of a write of the
// manifest, or that of SyncNames.
func (s *Store) EditErr() error {
	if lost := s.namesLost.Load(); lost != nil {
		return *lost
	}
	return s.manifest.Err()
}

// Visible returns the newest version that readers see.
func (s *Store) Visible() base.SeqNum { return base.SeqNum(s.visible.Load()) }

// SetVisible shows readers everything up to seq.
func (s *Store) SetVisible(seq base.SeqNum) { s.visible.Store(uint64(seq)) }

// Applied returns the newest version that AcquireApplied shows.
func (s *Store) Applied() base.SeqNum { return base.SeqNum(s.applied.Load()) }

// SetApplied says that the view has everything up to seq. The caller holds build, and
// calls SetVisible later.
func (s *Store) SetApplied(seq base.SeqNum) { s.applied.Store(uint64(seq)) }

// Closed reports whether the database has been closed.
func (s *Store) Closed() bool { return s.closed.Load() }

// ClosedFlag returns what Closed loads, for iterators, which ask for every entry.
func (s *Store) ClosedFlag() *atomic.Bool { return &s.closed }

// Closing makes the store refuse new readers.
func (s *Store) Closing() { s.closed.Store(true) }

// NextFile returns a number above those of all files.
func (s *Store) NextFile() base.FileNum { return base.FileNum(s.nextFile.Load()) }

// Shut gives memory and files back as soon as no reader is left.
func (s *Store) Shut() {
	s.shutting.Lock()
	s.shutting.due = true
	s.shutting.Unlock()
	s.reap()
}

// reap gives memory and files back after Shut, once no reader is left.
func (s *Store) reap() {
	s.shutting.Lock()
	defer s.shutting.Unlock()
	if s.shutting.done || !s.shutting.due || s.readers.Active() > 0 {
		return
	}
	s.shutting.done = true
	s.deleteObsolete()
	if err := s.free(); err != nil {
		s.report(event.Warning{What: "a table could not be closed", Err: err})
	}
}

// Abandon gives everything back after an Open that failed. No reader exists. The
// error of Open is the one to report.
func (s *Store) Abandon() { _ = s.free() }

func (s *Store) free() error {
	for _, t := range s.view.Load().Memtables {
		t.Release()
	}
	s.Memory.close()
	err := s.files.Close()
	s.o.Freed()
	return err
}

func (s *Store) report(e any) { s.o.Report(e) }
