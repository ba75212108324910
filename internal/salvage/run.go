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
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// Options say what to salvage.
type Options struct {
	FS vfs.FS
	// From is the damaged directory, and To the new one. Both are absolute.
	From, To string
	// LockName is the name of the lock file of a database.
	LockName string
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
	// refused is why a file could not be opened that may be intact. Such a file is no loss:
	// Options.Stop returns the error.
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
	lock, err := s.fs.LockShared(s.fs.Join(s.o.From, s.o.LockName))
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, vfs.ErrNotExist), errors.Is(err, vfs.ErrReadOnly), errors.Is(err, vfs.ErrUnsupported):
		return unlocked{}, nil
	}
	return nil, err
}

type unlocked struct{}

func (unlocked) Close() error { return nil }

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

// copyAll copies all entries.
func (s *salvager) copyAll() ([]*manifest.Table, error) {
	inv, err := s.list()
	if err != nil {
		return nil, err
	}
	rules := map[uint32]*settings.Settings{}
	s.values = valueCopier{s: s, rules: settings.Walk{Of: func(n uint32) *settings.Settings {
		if rules[n] == nil {
			rules[n] = s.rules(n)
		}
		return rules[n]
	}}}
	defer s.values.close()
	if err := s.values.find(s.valueInputs(inv.values)); err != nil {
		return nil, err
	}
	tables, err := s.tableSources(inv.tables)
	if err != nil {
		return nil, err
	}
	logs, err := s.readLog(inv.logs)
	if err != nil {
		return nil, err
	}
	if tables, err = s.reduce(tables, false); err != nil {
		return nil, err
	}
	m, err := newMerger(append(tables, logs...))
	if err != nil {
		return nil, err
	}
	defer m.close()
	out := s.newOutput(false)
	defer out.close()
	if err := s.merge(m, out); err != nil {
		return nil, err
	}
	if err := out.finish(nil); err != nil {
		return nil, err
	}
	if err := s.values.finish(); err != nil {
		return nil, err
	}
	return out.tables, s.o.Stop()
}

// valueInputs returns the value files to read.
func (s *salvager) valueInputs(found []base.FileNum) (files []*valueInput) {
	hints := map[base.FileNum]*values.Hint{}
	if v := s.state.Version; v != nil {
		for _, l := range v.Values {
			hints[l.File] = &values.Hint{Num: l.Num, Salt: l.Salt}
			if s.known && !slices.Contains(found, l.File) {
				files = append(files, &valueInput{file: l.File, hint: hints[l.File]}) // opening it fails
			}
		}
	}
	for _, n := range found {
		if hints[n] != nil || !s.known {
			files = append(files, &valueInput{file: n, hint: hints[n]})
		}
	}
	if !s.known {
		return files
	}
	// The commits of the log have value files that the manifest does not know.
	for _, n := range found {
		if hints[n] == nil {
			files = append(files, &valueInput{file: n})
		}
	}
	return files
}

// tableSources returns the tables to read, in chains, and reads their range tombstones.
func (s *salvager) tableSources(found []base.FileNum) (all []source, err error) {
	var groups [][]tableInput
	if s.known && s.state.Version != nil {
		groups = s.liveTables(found)
	} else {
		groups, err = s.allTables(found)
	}
	s.deletions, s.lists = rangedel.Merge(s.lists...), nil
	for _, tables := range groups {
		all = append(all, &chain{s: s, tables: tables})
	}
	return all, err
}

// hint returns what the manifest says of a table.
func hint(t *manifest.Table) *table.Hint {
	return &table.Hint{Salt: t.Salt, SeqShift: t.SeqShift, Counts: &table.Counts{Entries: t.Entries, Deletions: t.Deletions, Expiring: t.Expiring,
		Pointers: t.Pointers, Partials: t.Partials, RangeDeletions: t.RangeDeletions}}
}

// liveTables returns the tables of the manifest by level.
func (s *salvager) liveTables(found []base.FileNum) (groups [][]tableInput) {
	add := func(tables []*manifest.Table) {
		var group []tableInput
		for _, t := range tables {
			in := tableInput{num: t.Num, hint: hint(t), lo: t.Smallest, hi: base.StoredBound(t.Largest)}
			s.report.Tables++
			if !slices.Contains(found, t.Num) {
				s.report.loseFile(in.name(), t.Size, in.lo, in.hi, base.Corrupt(-1, "file", "none", fmt.Sprintf("%d bytes", t.Size)))
				continue
			}
			group = append(group, in)
			if t.RangeDeletions > 0 || t.Entries == 0 {
				s.readDeletions(&in)
			}
		}
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	v := s.state.Version
	for i := range v.Runs() {
		add(v.Run(i))
	}
	for _, tables := range v.Levels[1:] {
		add(tables)
	}
	return groups
}

// allTables returns all tables that can be read.
func (s *salvager) allTables(found []base.FileNum) ([][]tableInput, error) {
	hints := map[base.FileNum]*table.Hint{}
	if v := s.state.Version; v != nil {
		for t := range v.Tables() {
			hints[t.Num] = hint(t)
		}
	}
	var tables []tableInput
	for _, n := range found {
		if err := s.o.Stop(); err != nil {
			return nil, err
		}
		in := tableInput{num: n, hint: hints[n]}
		s.report.Tables++
		d := s.readDeletions(&in)
		if d == nil {
			s.report.loseFile(in.name(), 0, nil, nil, errUnopened)
			continue
		}
		in.lo, in.hi, _ = d.Bounds()
		in.span(d)
		tables = append(tables, in)
	}
	placeIngested(tables)
	return chains(slices.DeleteFunc(tables, func(t tableInput) bool { return t.lo == nil })), nil
}

var errUnopened = fmt.Errorf("%w: neither the footer nor the directory verifies", base.ErrCorrupt)

// readDeletions reads the range tombstones of a table, and reports what is wrong outside
// of its blocks. It returns nil if the table cannot be opened.
func (s *salvager) readDeletions(t *tableInput) *table.Damaged {
	file, d, err := s.openTable(t)
	if err != nil {
		return nil
	}
	_ = file.Close() // it was only read
	if l := d.Deletions(); l.Len() > 0 {
		s.lists = append(s.lists, l)
		newest, _ := l.Seqs()
		s.lastSeq = max(s.lastSeq, newest)
	}
	for _, p := range d.Problems {
		p.Err = fmt.Errorf("range tombstones are lost, so deleted keys may return: %w", p.Err)
		s.report.losePart(t.name(), p)
	}
	return d
}

// merge copies the entries of m to the new database.
func (s *salvager) merge(m *merger, out *output) error {
	var key []byte
	inTable := false // a table has a version of the key
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := s.o.Stop(); err != nil {
				return err
			}
		}
		group, err := m.next()
		if err != nil || len(group) == 0 {
			return err
		}
		if k := group[0].Key; string(k) != string(key) {
			key, inTable = append(key[:0], k...), false
		}
		number, user, err := keyspace.Decode(key)
		if err == nil && s.spaces.dropped(number) {
			continue
		}
		if err == nil {
			err = s.spaces.note(number, user)
		}
		if err == nil {
			err = s.copyGroup(out, group, &inTable)
		}
		if err != nil {
			if s.values.failed(err) {
				return err
			}
			s.loseEntry(key, err)
		}
	}
}

// copyGroup copies the first copy of a version that can be copied. Copies in tables precede
// those in the log. inTable says that a table has a newer version of the key, and copyGroup
// sets it.
func (s *salvager) copyGroup(out *output, group []head, inTable *bool) (err error) {
	flushed := group[0].rank != ofLog // a table has this version
	if !flushed && *inTable && !s.known {
		return nil // a flush wrote it to a table, and what became of it there counts
	}
	*inTable = *inTable || flushed
	for _, h := range group {
		if h.rank == ofLog && flushed && h.Meta.Kind.Partial() && !s.known {
			return err // the copy in the table may have joined it with older versions
		}
		err = s.copyEntry(out, h.entry)
		if err == nil && h.rank == ofLog && flushed && !s.known {
			s.noteOnce("some values came from the log, because their value files are damaged; no compaction filter has seen them")
		}
		if err == nil || s.values.failed(err) {
			return err
		}
	}
	return err
}

// copyEntry copies one entry with its value.
func (s *salvager) copyEntry(out *output, e *entry) error {
	own := e.Entry
	if own.Meta.Kind.Partial() {
		var err error
		if s.steps, err = partial.Decode(s.steps[:0], own.Meta.Kind, own.Value); err != nil {
			return err
		}
	}
	ref, apart, err := s.values.place(&own, e.rank == ofLog)
	if err != nil {
		return err
	}
	if apart {
		err = out.addPointer(own, ref)
	} else {
		err = out.add(own)
	}
	if err == nil {
		s.report.Entries++
		s.losing = false
		s.lastSeq = max(s.lastSeq, own.Seq)
	}
	return written(err)
}

// loseEntry notes that an entry is lost. Consecutive entries of one file are one loss.
func (s *salvager) loseEntry(key []byte, err error) {
	l := Loss{Offset: -1, Entries: 1, Err: err, from: slices.Clone(key), to: slices.Clone(key)}
	var c *base.CorruptionError
	var p *vfs.PathError
	if errors.As(err, &c) {
		l.File, l.Offset = c.File, c.Offset
	} else if errors.As(err, &p) {
		l.File = s.fs.Base(p.Path)
	}
	if n := len(s.report.Lost); s.losing && s.report.Lost[n-1].File == l.File && s.report.More == 0 {
		s.report.Lost[n-1].Entries++
		s.report.Lost[n-1].to = l.to
		return
	}
	s.losing = true
	s.report.lose(l)
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
