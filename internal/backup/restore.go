package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// suffix is added to the name of a database that is being restored.
	suffix = ".restore"
	// pieceTables is how many tables of keys and values a restore writes before it notes
	// what it has done.
	pieceTables = 8
	// stopEvery is the number of versions between two checks of the context.
	stopEvery = 1024
)

// RestoreOptions say how Restore makes a database.
type RestoreOptions struct {
	FS vfs.FS
	// Dir is the directory of the database, an absolute path.
	Dir string
	// UpTo is the version of the last backup to restore; 0 is the last of all.
	UpTo uint64
	// TableSize is about how large tables become, in bytes.
	TableSize int64
	// NowMs is the time in milliseconds of Unix time.
	NowMs uint64
	// Random returns random bits.
	Random func() uint64
	// Encrypts says that the files are to be encrypted. Such a restore begins anew after a
	// crash: the journal would show keys.
	Encrypts bool
	// Prepare returns the file system for the files in dir, and what seals the manifest,
	// which may be nil. It may make the keys of the database.
	Prepare func(dir string) (vfs.FS, record.Sealer, error)
}

// Restore makes a database of a chain of backups. It describes the last one.
func Restore(ctx context.Context, o RestoreOptions, backups []io.Reader) (Info, error) {
	if err := newdir.Unused(o.FS, o.Dir); err != nil {
		return Info{}, err
	}
	chain, err := OpenChain(o.UpTo, backups)
	if err != nil {
		return Info{}, err
	}
	r := &restore{o: &o, ctx: work.Given(ctx), chain: chain, temp: o.Dir + suffix}
	claim, err := newdir.Claim(o.FS, r.temp, o.Dir)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = claim.Close() }() // nothing is written through it
	if err := r.run(); err != nil {
		return Info{}, err
	}
	return chain.Last().Info(), nil
}

// A restore is one restore.
type restore struct {
	o     *RestoreOptions
	ctx   context.Context
	chain *Chain
	temp  string

	journal *journal
	edits   []manifest.Edit // what is done
	sealer  record.Sealer
	build   *builder
	done    []byte // the last key that is done, nil if there is none
}

func (r *restore) run() (err error) {
	defer func() { err = errors.Join(err, r.closeJournal()) }()
	if err := r.begin(); err != nil {
		return err
	}
	fs, sealer, err := r.o.Prepare(r.temp)
	if err != nil {
		return err
	}
	r.sealer = sealer
	var table settings.Table
	table.Set(r.chain.Last().Header.State.Keyspaces)
	r.build = &builder{fs: fs, dir: r.temp, random: r.o.Random, hashSeed: r.journal.hashSeed, createdMs: r.o.NowMs,
		tableSize: r.o.TableSize, rules: settings.Walk{Of: table.Of}}
	defer r.build.close()
	if err := r.goOn(); err != nil {
		return err
	}
	if err := r.copy(); err != nil {
		return err
	}
	if err := r.writeManifest(); err != nil {
		return err
	}
	return r.rename()
}

// begin opens the journal of an earlier restore of the same backups, or begins a new one.
func (r *restore) begin() error {
	names, err := r.o.FS.List(r.temp)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != JournalName && !manifest.IsFileOfNew(name) {
			return fmt.Errorf("%s has a file that no restore made: %s", r.temp, name)
		}
	}
	if slices.Contains(names, JournalName) {
		if r.journal, r.edits, err = openJournal(r.o.FS, r.temp); err != nil {
			return err
		}
		switch {
		case r.journal == nil:
		case !slices.Equal(r.journal.nonces, r.chain.Nonces()) && !mutant.On(mutant.RestoreForeign):
			return fmt.Errorf("%w: %s belongs to a restore of other backups; remove it first", ErrChain, r.temp)
		case !r.o.Encrypts && !slices.ContainsFunc(names, isKeys) && r.hasAll(names):
			return nil
		}
		if err := r.closeJournal(); err != nil {
			return err
		}
	} else if manifest.CheckExists(r.o.FS, r.temp) == nil {
		return fmt.Errorf("%s has a database that no restore made: %w", r.temp, vfs.ErrExist)
	}
	return r.anew(names)
}

// isKeys reports whether a restore with encryption makes a file of this name for data keys.
func isKeys(name string) bool { return name == seal.KeysName || name == seal.TempName }

// hasAll reports whether all files of the journal are among the names, which are sorted. A
// crash of anew may have left the journal without them.
func (r *restore) hasAll(names []string) bool {
	for name := range filesOf(r.edits) {
		if _, found := slices.BinarySearch(names, name); !found {
			return false
		}
	}
	return true
}

// filesOf returns the names of the files that edits add.
func filesOf(edits []manifest.Edit) map[string]bool {
	names := map[string]bool{}
	for _, e := range edits {
		for _, t := range e.AddTables {
			names[base.TableName(t.Num)] = true
		}
		for _, v := range e.AddValues {
			names[base.ValueName(v.File)] = true
		}
	}
	return names
}

// anew removes what an earlier restore left, and begins a journal. The names are sorted: the
// journal is the last.
func (r *restore) anew(names []string) (err error) {
	for _, name := range names {
		if name == JournalName {
			// Without the journal, begin takes a manifest for that of another database. So the
			// removal of a manifest must be durable.
			if err := r.o.FS.SyncDir(r.temp); err != nil {
				return err
			}
		}
		if err := r.o.FS.Remove(r.o.FS.Join(r.temp, name)); err != nil {
			return err
		}
	}
	p := plan{hashSeed: r.o.Random(), nonces: r.chain.Nonces()}
	for i := range p.id {
		p.id[i] = byte(r.o.Random())
	}
	r.edits = nil
	r.journal, err = createJournal(r.o.FS, r.temp, p)
	return err
}

// closeJournal closes the journal, unless there is none or it is closed.
func (r *restore) closeJournal() error {
	if r.journal == nil {
		return nil
	}
	j := r.journal
	r.journal = nil
	return j.file.Close()
}

// goOn finds where the journal ends. It removes files that the journal does not know, and the
// manifest, which writeManifest writes again.
func (r *restore) goOn() error {
	live := filesOf(r.edits)
	for _, e := range r.edits {
		r.build.next = max(r.build.next, e.NextFile.Value)
		for _, t := range e.AddTables {
			r.done = t.Largest
			if n := len(r.done); mutant.On(mutant.RestoreSkipsAhead) {
				r.done = append(r.done[:n-1:n-1], 0xff)
			}
		}
	}
	names, err := r.o.FS.List(r.temp)
	if err != nil {
		return err
	}
	r.build.next = max(r.build.next, 1)
	for _, name := range names {
		n, isTable := base.ParseTableName(name)
		v, isValues := base.ParseValueName(name)
		_, isManifest := manifest.ParseFileName(strings.TrimSuffix(name, ".tmp"))
		if (isTable || isValues) && !live[name] || isManifest {
			if err := r.o.FS.Remove(r.o.FS.Join(r.temp, name)); err != nil {
				return err
			}
			if n = max(n, v); n < base.ForeignFile {
				r.build.next = max(r.build.next, uint64(n)+1)
			}
		}
	}
	return nil
}

// copy reads all backups to their ends, and writes what is not done yet.
//
// It leaves out keys of keyspaces that the last backup does not have. A backup that was taken
// while a keyspace was being dropped has neither the keyspace nor the deletion of its keys.
func (r *restore) copy() error {
	b, state := r.build, &r.chain.Last().Header.State
	var last []byte
	var walk keyspace.Walk
	number, known := uint32(0), true
	for n := 0; ; n++ {
		if n%stopEvery == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		it, from, err := r.chain.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if r.done != nil && bytes.Compare(it.Key, r.done) <= 0 {
			continue
		}
		if of := walk.Number(it.Key); of != number {
			k, ok := state.Keyspace(of)
			number, known, b.timed = of, ok || of == 0, ok && k.Settings.Timestamps != 0
		}
		if !known {
			continue
		}
		newKey := !bytes.Equal(it.Key, last)
		if newKey {
			last = append(last[:0], it.Key...)
			if b.size >= pieceTables*r.o.TableSize {
				if err := r.note(); err != nil {
					return err
				}
			}
		}
		if err := b.add(it, from, newKey); err != nil {
			return err
		}
	}
	return r.note()
}

// note makes what was written a part of the database.
func (r *restore) note() error {
	e, err := r.build.piece()
	if err != nil || len(e.AddTables) == 0 {
		return err
	}
	r.edits = append(r.edits, e)
	if r.o.Encrypts {
		return nil
	}
	return r.journal.append(frameEdit, e.AppendTo(nil))
}

// writeManifest makes the database complete but for its name.
func (r *restore) writeManifest() error {
	h := &r.chain.Last().Header
	s := h.State
	s.FormatVersion, s.ID, s.HashSeed = manifest.FormatVersion, r.journal.id, r.journal.hashSeed
	s.FlushedSeq, s.NextFile = s.LastSeq, r.build.next
	s.ClockHighMs = max(s.ClockHighMs, r.o.NowMs)
	if r.sealer != nil {
		s.RequiredFeatures = append(slices.Clone(s.RequiredFeatures), manifest.FeatureEncryption)
		slices.Sort(s.RequiredFeatures)
	}
	for _, e := range r.edits {
		e.NextFile = manifest.Optional[uint64]{}
		var err error
		if s, err = s.Apply(e); err != nil {
			return err
		}
	}
	m, err := manifest.CreateFor(r.o.FS, r.temp, s, r.o.Random, r.sealer)
	if err != nil {
		// The next sync may succeed without making the name durable, so it must go.
		return errors.Join(err, removeNamed(r.o.FS, r.o.FS.Join(r.temp, manifest.FileName(1))))
	}
	return m.Close()
}

// removeNamed removes a file, unless there is none.
func removeNamed(fs vfs.FS, path string) error {
	if err := fs.Remove(path); !errors.Is(err, vfs.ErrNotExist) {
		return err
	}
	return nil
}

// rename gives the database its name, durably, and then removes the journal. It closes the
// journal first: Windows renames no directory with an open file in it.
func (r *restore) rename() error {
	fs, dir := r.o.FS, r.o.Dir
	if err := r.closeJournal(); err != nil {
		return err
	}
	if _, err := newdir.Publish(fs, r.temp, dir); err != nil {
		return err
	}
	// The database is whole without the lock file and with the journal. The next writer makes
	// the one and removes the other.
	_ = fs.Remove(fs.Join(dir, JournalName))
	_ = newdir.AddLock(fs, dir)
	return nil
}

// Verify reads a backup to its end.
func Verify(ctx context.Context, from io.Reader) (Info, error) {
	ctx = work.Given(ctx)
	r, err := NewReader(from)
	if err != nil {
		return Info{}, err
	}
	for n := 0; ; n++ {
		if n%stopEvery == 0 && ctx.Err() != nil {
			return Info{}, ctx.Err()
		}
		if _, err := r.Next(); err == io.EOF {
			return r.Info(), nil
		} else if err != nil {
			return Info{}, err
		}
	}
}
