package filebackup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// A Database is what Backup needs of an open database. *stoat.DB is one.
type Database interface {
	// Checkpoint makes a copy of the database in dir, which shares its files.
	Checkpoint(ctx context.Context, dir string) error
}

// Options say how Backup works.
type Options struct {
	// Temp is a directory that only backups of this database use. Backup creates it, and
	// removes it at the end. It must be outside the directory of the database. If it is on
	// the same file system, a backup takes no space there. Required.
	Temp string
	// FS is the file system of the database. Default: that of the operating system.
	FS vfs.FS
	// Workers is how many files are copied at once. Each takes about a megabyte of memory.
	// Default: 4. Maximum: 256.
	Workers int
	// Verify also reads the files that the store has already, and compares them with the
	// database. Without it, Backup takes a stored file of the right size for intact. Backup
	// copies a file again if the stored one is damaged or cannot be read. If the stored one
	// differs, Backup replaces it only if DB.Check finds no problem in the database's own.
	// It never replaces an encrypted file that differs, because it has no key to check it.
	// Verify takes twice as long as the function Verify. Default: false.
	Verify bool
}

// An Info describes a backup.
type Info struct {
	// ID names the backup. IDs ascend with the time.
	ID string
	// Time is when the backup was made, by the clock of its computer. It is a nanosecond
	// after the newest backup in the store if the clock was not later. So after one backup
	// by a clock far ahead, the times of all later ones are wrong.
	Time time.Time
	// Files counts its files, and Bytes is the sum of their sizes.
	Files int
	Bytes int64
}

// A Report describes a backup and the work that it took.
type Report struct {
	Info
	// Copied counts the files that the store lacked or had damaged, and CopiedBytes is the sum
	// of their sizes. Replaced counts those of them that were damaged or could not be read.
	Copied      int
	CopiedBytes int64
	Replaced    int
}

// attemptsMax is how often a backup tries after it has lost its claim.
const attemptsMax = 3

// Backup makes a backup of an open database. It has exactly the commits up to some moment
// during the call, so it has all commits that were acknowledged before. Transactions go on.
//
// Backup copies the files that no earlier backup has copied. After an error or a crash there
// is no new backup, and the next call uses the files that were copied already. One exception:
// if the Report of an error has an ID, the backup is complete, and only Temp is not
// removed. While another Backup uses Temp, the error is stoat.ErrLocked.
//
// It relies on the files in the store. If the function Verify finds one damaged, a Backup with
// Options.Verify copies it again, and so repairs all backups that have it. The database must
// still have the file.
//
// Backup waits while a Prune is under way. After a crash of a Prune, it waits for two minutes.
//
// Until it ends, files that the database no longer needs keep their space.
func Backup(ctx context.Context, db Database, store Store, o Options) (Report, error) {
	r, err := runBackup(work.Given(ctx), db, store, o)
	if err != nil {
		err = fmt.Errorf("file backup: %w", err)
	}
	return r, err
}

func runBackup(ctx context.Context, db Database, store Store, o Options) (r Report, err error) {
	if err := checkWorkers(&o.Workers); err != nil {
		return Report{}, err
	}
	if o.Temp == "" {
		return Report{}, base.Invalid("Options.Temp is empty")
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	temp, err := newScratch(o.FS, o.Temp)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, temp.remove()) }()
	if err := db.Checkpoint(ctx, temp.path); err != nil {
		return Report{}, err
	}
	b := &backup{o: &o, store: store, dir: temp.path}
	if err := b.begin(); err != nil {
		return Report{}, err
	}
	for attempt := 1; ; attempt++ {
		err := b.attempt(ctx)
		if err == nil {
			return Report{Info: b.list.info(), Copied: int(b.copied.Load()), CopiedBytes: b.copiedBytes.Load(),
				Replaced: int(b.replaced.Load())}, nil
		}
		if !errors.Is(err, ErrClaimLost) || attempt == attemptsMax {
			return Report{}, err
		}
	}
}

// checkWorkers checks the number of workers, and replaces 0.
func checkWorkers(n *int) error {
	if *n < 0 || *n > workersMax {
		return base.Invalid("Workers is %d, want 0 to %d", *n, workersMax)
	}
	if *n == 0 {
		*n = workersDefault
	}
	return nil
}

// A backup is one backup under way.
type backup struct {
	o     *Options
	store Store
	dir   string // of the checkpoint
	list  list   // its files; a sum of zeros is not known yet

	last   string           // the newest ID in the store
	known  map[string]file  // files of the newest list that is intact, by name
	stored map[string]int64 // sizes of the objects in files/

	checking sync.Once
	sound    bool // the checkpoint has no damage; set by checking

	copied      atomic.Int64
	copiedBytes atomic.Int64
	replaced    atomic.Int64
}

// look finds out what the store has.
func (b *backup) look(ctx context.Context) error {
	ids, err := idsOf(ctx, b.store)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		b.last = ids[len(ids)-1]
	}
	b.known, b.stored = map[string]file{}, map[string]int64{}
	for _, id := range slices.Backward(ids) {
		l, err := getList(ctx, b.store, id)
		if errors.Is(err, base.ErrCorrupt) || errors.Is(err, base.ErrVersion) {
			continue // it is only a source of sums
		}
		if errors.Is(err, ErrNoBackup) {
			continue // a Prune has just deleted it
		}
		if err != nil {
			return err
		}
		for _, f := range l.files {
			b.known[f.name] = f
		}
		break
	}
	for o, err := range b.store.List(ctx, filesDir) {
		if err != nil {
			return err
		}
		b.stored[o.Name] = o.Size
	}
	return nil
}

// begin begins the list.
func (b *backup) begin() error {
	names, err := b.o.FS.List(b.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := category(name); ok {
			b.list.files = append(b.list.files, file{name: name})
		} else if name != newdir.LockName {
			return fmt.Errorf("the checkpoint has a file of an unknown kind: %s", name)
		}
	}
	return nil
}

// attempt copies what the store lacks, and then puts the list.
func (b *backup) attempt(ctx context.Context) error {
	held, err := newClaim(ctx, b.store, claimBackup)
	if err != nil {
		return err
	}
	defer held.release(ctx)
	if err := awaitClaims(ctx, b.store, claimPrune, true); err != nil {
		return err
	}
	if err := b.look(ctx); err != nil {
		return err
	}
	if err := each(ctx, b.o.Workers, b.list.files, b.copy); err != nil {
		return err
	}
	if b.list.id, err = b.newID(); err != nil {
		return err
	}
	return b.putList(ctx, held)
}

// putList puts the list. The time limit is part of the claim: the list must be there before
// others may remove the claim and delete files. A computer that slept can exceed the limit,
// so the claim counts once more at the end. Without it, files may be missing: the list goes.
func (b *backup) putList(ctx context.Context, held *claim) error {
	content := b.list.encode()
	if err := errors.Join(b.list.check(), held.valid()); err != nil {
		return err
	}
	name := listsDir + b.list.id
	limited, cancel := context.WithTimeout(ctx, claimLapse-claimValid)
	defer cancel()
	err := b.store.Put(limited, name, sectionOf(content))
	if err = errors.Join(err, held.valid()); err == nil {
		return nil
	}
	after, cancelAfter := context.WithTimeout(context.WithoutCancel(ctx), claimRenewal)
	defer cancelAfter()
	return fmt.Errorf("list of files: %w", errors.Join(err, b.store.Delete(after, name)))
}

// newID returns an ID greater than all IDs in the store.
func (b *backup) newID() (string, error) {
	now := time.Now()
	if last, ok := parseID(b.last); ok && !now.After(last) {
		now = last.Add(1) // the clock went back
	}
	id := newID(now, rand.Uint64())
	if !isID(id) {
		return "", fmt.Errorf("no ID of a backup has the time %v, and the newest backup is %q", now, b.last)
	}
	return id, nil
}

// copy copies a file to the store, unless that has it, and completes f.
func (b *backup) copy(ctx context.Context, f *file) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", f.name, err)
		}
	}()
	cat, _ := category(f.name)
	r, err := openFile(b.o.FS, b.o.FS.Join(b.dir, f.name), cat)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	f.size = r.Size()
	if cat == vfs.CatTable || cat == vfs.CatValue {
		if f.mark, err = markOf(r.SectionReader); err != nil {
			return err
		}
	}
	var missing sum // the sum of the list, if the store lacks that object
	if known := b.known[f.name]; b.same(f, &known) {
		there, err := b.has(ctx, &known)
		if there && b.o.Verify {
			there, err = b.agrees(ctx, r.SectionReader, &known)
		}
		if there || err != nil {
			f.sum = known.sum
			return err
		}
		// An earlier attempt may have taken the sum of the list without reading the file.
		f.sum, missing = sum{}, known.sum
	}
	if f.sum == (sum{}) {
		if f.sum, err = sumOf(ctx, r.SectionReader); err != nil {
			return err
		}
	}
	if f.sum != missing {
		if there, err := b.has(ctx, f); there || err != nil {
			return err
		}
	}
	if err := b.store.Put(ctx, f.object(), r.SectionReader); err != nil {
		return err
	}
	b.copied.Add(1)
	b.copiedBytes.Add(f.size)
	if _, replaced := b.stored[f.object()]; replaced {
		b.replaced.Add(1)
	}
	return nil
}

// same reports whether the newest list has the file, so that its sum is known.
func (b *backup) same(f, known *file) bool {
	if mutant.On(mutant.FileByName) {
		return known.name != ""
	}
	return f.mark != "" && f.mark == known.mark && f.size == known.size
}

// has reports whether the store has a file. With Options.Verify, a file that cannot be read
// counts as missing, whatever the reason is: to put it again harms nothing.
func (b *backup) has(ctx context.Context, f *file) (bool, error) {
	if size, ok := b.stored[f.object()]; !ok || size != f.size {
		return false, nil
	}
	if !b.o.Verify {
		return true, nil
	}
	err := fetch(ctx, b.store, f, func([]byte, int64) error { return nil })
	return err == nil, ctx.Err()
}

// agrees reports whether the content of a file that the newest list has counts. If that of the
// database differs, either the file was damaged since, or a byte was wrong when it was copied.
// Then the file of the database counts, if the checkpoint has no damage.
func (b *backup) agrees(ctx context.Context, r *io.SectionReader, known *file) (bool, error) {
	got, err := sumOf(ctx, r)
	if err != nil || got == known.sum {
		return err == nil, err
	}
	b.checking.Do(func() { b.sound = b.check(ctx) == nil })
	return !b.sound, ctx.Err()
}

// check looks for damage in the checkpoint. It is an error if that is encrypted.
func (b *backup) check(ctx context.Context) error {
	db, err := stoat.Open(b.dir, &stoat.Options{FS: b.o.FS, ReadOnly: true})
	if err != nil {
		return err
	}
	_, err = db.Check(ctx, stoat.CheckOptions{})
	return errors.Join(err, db.Close())
}

// markTail is how many bytes at the end of a file its mark covers: more than a footer has.
const markTail = 4096

// markOf returns the mark of a table or a value file: a hash of its last bytes. They have
// the footer with the random salt of the file, which also each rewritten file draws anew. A
// table's footer covers all of its checksums as well. So files with the same name, size and
// mark are the same file.
func markOf(r *io.SectionReader) (string, error) {
	tail := make([]byte, min(r.Size(), markTail))
	if n, err := r.ReadAt(tail, r.Size()-int64(len(tail))); n < len(tail) {
		return "", unexpected(err)
	}
	s := sha256.Sum256(tail)
	return hex.EncodeToString(s[:markSize]), nil
}

// sumOf reads a file.
func sumOf(ctx context.Context, r *io.SectionReader) (s sum, err error) {
	h := sha256.New()
	buf := make([]byte, bufferSize)
	for at := int64(0); at < r.Size(); at += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		buf = buf[:min(int64(len(buf)), r.Size()-at)]
		if n, err := r.ReadAt(buf, at); n < len(buf) {
			return s, unexpected(err)
		}
		h.Write(buf)
	}
	return sum(h.Sum(nil)), nil
}
