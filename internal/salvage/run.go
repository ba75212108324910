package salvage

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/vfs"
)

// Options say what to salvage.
type Options struct {
	FS vfs.FS
	// From is the damaged directory, and To the new one. Both are absolute.
	From, To string
	// Provider has the master keys of an encrypted database, nil for a plain one.
	Provider   seal.Provider
	DataKeyAge time.Duration
	Clock      base.Clock
	// Random returns random bits, and Entropy random bytes for keys.
	Random  func() uint64
	Entropy io.Reader
	// Defaults are the settings of a keyspace whose settings are lost.
	Defaults manifest.Settings
	// IgnoreManifest reads all files, as if the manifest were damaged.
	IgnoreManifest bool
	// Stop returns an error to end the work.
	Stop func() error

	// FanIn is how many sources are merged at once; each takes about a megabyte.
	// Default: 32. SpillSize is how many bytes of entries of the log are sorted in memory.
	// Default: 32 MiB.
	FanIn, SpillSize int
}

// A salvager is a run of Run.
type salvager struct {
	o      *Options
	fs     vfs.FS        // unseals the tables and value files of From
	sealer record.Sealer // of the log and the manifest of From, nil without encryption

	state  manifest.State // of the manifest, or of its readable part
	known  bool           // all of the manifest is readable
	report Report
	noted  map[string]bool

	deletions *rangedel.List
	lists     []*rangedel.List // the range tombstones of each table
	spaces    *spaces
	values    valueCopier
	hashSeed  uint64
	nowMs     uint64
	clockMs   uint64
	lastSeq   base.SeqNum

	steps  []partial.Step
	losing bool // the last loss is of an entry, and none was copied since

	to    target
	spare []string // tables of to that only hold what is merged later
}

// Run copies what verifies of a database to a new one. The new database exists only if it
// is complete.
func Run(ctx context.Context, o Options) (Report, error) {
	o.FanIn, o.SpillSize = cmp.Or(o.FanIn, 32), cmp.Or(o.SpillSize, 32<<20)
	from, stop := &sourceFS{FS: o.FS}, o.Stop
	o.Stop = func() error { return cmp.Or(from.refused, stop()) }
	s := &salvager{o: &o, fs: from, noted: map[string]bool{}, hashSeed: o.Random(), nowMs: base.NowMs(o.Clock)}
	lock, err := s.lock()
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = lock.Close() }() // nothing is written through it
	if err := s.openKeys(ctx); err != nil {
		return Report{}, err
	}
	if err := s.loadManifest(); err != nil {
		return Report{}, err
	}
	if err := s.build(ctx); err != nil {
		return Report{}, err
	}
	return s.report, nil
}

// A sourceFS is the file system of Options.From.
type sourceFS struct {
	vfs.FS
	// refused is the error of the first file that the system did not let us open. The file may
	// be intact, so the run ends: Options.Stop returns the error.
	refused error
}

// Open opens a file to read it.
func (s *sourceFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	f, err := s.FS.Open(name, cat)
	if errors.Is(err, vfs.ErrTooManyFiles) || errors.Is(err, vfs.ErrPermission) {
		s.refused = cmp.Or(s.refused, err)
	}
	return f, err
}

// lock excludes writers of the damaged directory. Without a lock file there is none.
func (s *salvager) lock() (io.Closer, error) {
	lock, err := s.fs.LockShared(s.fs.Join(s.o.From, newdir.LockName))
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, vfs.ErrNotExist), errors.Is(err, vfs.ErrReadOnly), errors.Is(err, vfs.ErrUnsupported):
		return io.NopCloser(nil), nil // no lock file: there is nothing to release
	}
	return nil, err
}

// openKeys loads the data keys of an encrypted database. Without them nothing can be read.
func (s *salvager) openKeys(ctx context.Context) error {
	exist, err := seal.Exist(s.fs, s.o.From)
	if err != nil {
		return err
	}
	if !exist {
		_, sealed, err := manifest.Inspect(s.fs, s.o.From)
		switch {
		case err == nil && sealed:
			return &base.CorruptionError{File: seal.KeysName, Offset: -1, What: "file", Got: "none", Want: "the data keys"}
		case s.o.Provider != nil:
			return fmt.Errorf("%w: the database is not encrypted", base.ErrKey)
		}
		return nil
	}
	if s.o.Provider == nil {
		return fmt.Errorf("%w: the database is encrypted, and there is no key", base.ErrKey)
	}
	keys, err := seal.Load(ctx, s.keyOptions(s.fs, s.o.From, true))
	if err != nil {
		return err
	}
	s.fs, s.sealer = keys.FS(s.fs), keys
	return nil
}

func (s *salvager) keyOptions(fs vfs.FS, dir string, readOnly bool) seal.Options {
	return seal.Options{FS: fs, Dir: dir, Provider: s.o.Provider, Clock: s.o.Clock, MaxAge: s.o.DataKeyAge,
		Random: s.o.Entropy, ReadOnly: readOnly, Fix: readOnly}
}

// loadManifest reads the manifest.
func (s *salvager) loadManifest() error {
	state, err := manifest.LoadDamaged(s.fs, s.o.From, s.sealer)
	if errors.Is(err, base.ErrVersion) || errors.Is(err, vfs.ErrNotExist) {
		return err
	}
	s.state, s.known = state, err == nil
	switch {
	case err != nil:
		s.report.note(fmt.Sprintf("every file counts: %v", err))
	case s.o.IgnoreManifest:
		s.known = false
		s.report.note("every file counts: the manifest is ignored")
	default:
		s.checkStale()
	}
	s.report.Manifest = s.known
	if s.state.FormatVersion != 0 {
		s.hashSeed = s.state.HashSeed
	}
	s.lastSeq, s.clockMs = max(s.state.LastSeq, s.state.FlushedSeq), s.state.ClockHighMs
	s.spaces = newSpaces(&s.state, s.known)
	return nil
}

// An inventory lists the files of a directory.
type inventory struct {
	tables, values []base.FileNum
	logs           []uint64
}

func (s *salvager) list() (inv inventory, err error) {
	names, err := s.fs.List(s.o.From)
	for _, name := range names {
		if n, ok := base.ParseTableName(name); ok {
			inv.tables = append(inv.tables, n)
		} else if n, ok := base.ParseValueName(name); ok {
			inv.values = append(inv.values, n)
		} else if n, ok := log.ParseFileName(name); ok {
			inv.logs = append(inv.logs, n)
		}
	}
	return inv, err
}

// checkStale finds a manifest of an earlier time: it names tables that do not exist, and
// does not name others.
func (s *salvager) checkStale() {
	inv, err := s.list()
	if err != nil || s.state.Version == nil {
		return
	}
	live := map[base.FileNum]bool{}
	missing, unknown := 0, 0
	for t := range s.state.Version.Tables() {
		live[t.Num] = true
		if !slices.Contains(inv.tables, t.Num) {
			missing++
		}
	}
	for _, n := range inv.tables {
		if !live[n] {
			unknown++
		}
	}
	if missing > 0 && unknown > 0 {
		s.known = false
		s.report.note(fmt.Sprintf("every file counts: the manifest lacks %d tables that exist, and names %d that do not", unknown, missing))
	}
}

// rules returns the settings of a keyspace.
func (s *salvager) rules(number uint32) *settings.Settings {
	m := &s.o.Defaults
	if k := s.spaces.known[number]; k != nil {
		m = &k.Settings
	}
	r := settings.Resolve(m)
	return &r
}

// noteOnce adds a note to the report unless it has it.
func (s *salvager) noteOnce(text string) {
	if !s.noted[text] && len(s.noted) < notesMax {
		s.noted[text] = true
		s.report.note(text)
	}
}

// newState returns the state of the new database.
func (s *salvager) newState(tables []*manifest.Table) manifest.State {
	v := new(manifest.Version)
	v.Levels[level] = tables
	for _, f := range s.values.made {
		v.Values = append(v.Values, manifest.LiveValues{ValueFile: f})
	}
	state := manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: s.hashSeed, LastSeq: s.lastSeq, FlushedSeq: s.lastSeq,
		ClockHighMs: s.clockMs, NextFile: uint64(s.to.next) + 1, Version: v,
		Keyspaces: s.spaces.table(&s.report), NextKeyspace: max(1, s.state.NextKeyspace)}
	binary.LittleEndian.PutUint64(state.ID[:8], s.o.Random())
	binary.LittleEndian.PutUint64(state.ID[8:], s.o.Random())
	for _, k := range state.Keyspaces {
		state.NextKeyspace = max(state.NextKeyspace, k.Number+1)
	}
	if s.sealer != nil {
		state.RequiredFeatures = []string{manifest.FeatureEncryption}
	}
	return state
}
