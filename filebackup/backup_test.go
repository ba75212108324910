package filebackup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A departingFS is a file system on which another backup ends, and removes the directory that
// both use, just before this one locks it.
type departingFS struct {
	vfs.FS
	departed bool
}

func (f *departingFS) LockDir(dir string) (io.Closer, error) {
	if !f.departed {
		f.departed = true
		if err := f.Remove(dir); err != nil {
			return nil, err
		}
	}
	return f.FS.LockDir(dir)
}

func TestBackup_MakesItsDirectoryAgainAfterAnotherBackupRemovedIt(t *testing.T) {
	t.Parallel()
	disk := &departingFS{FS: memfs.New()}
	store := Dir(memfs.New(), "/store")
	if _, err := Backup(t.Context(), &fakeDatabase{fs: disk}, store, Options{FS: disk, Temp: "/temp"}); err != nil {
		t.Errorf("a backup beside one that ends: %v", err)
	}
	if _, err := disk.Stat("/temp"); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
}

// backedUpAgain makes a backup in which a sync of names fails, the one with the number nth, and then
// another one, which must survive a power cut. It reports false if there are not so many syncs.
func backedUpAgain(t *testing.T, db Database, disk *memfs.FS, o Options, nth int64) bool {
	t.Helper()
	faults := faultfs.New(disk)
	fault := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: nth, Sync: vfs.SyncDropped})
	_, failed := Backup(t.Context(), db, Dir(faults, "/store"), o)
	if fault.Fired() == 0 {
		return false
	}
	r, err := Backup(t.Context(), db, Dir(disk, "/store"), o)
	must(t, err)
	if _, err := Verify(t.Context(), Dir(disk.Crash(memfs.KeepNone, nil), "/store"), r.ID); err != nil {
		t.Errorf("after sync %d of names failed with %v: %v", nth, failed, err)
	}
	return true
}

// The system may take names for durable whose sync has failed.
func TestBackup_AfterAFailedSyncOfNamesTheNextOneSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	for nth := int64(1); ; nth++ {
		db, o, _ := newFake()
		disk := memfs.New()
		if !backedUpAgain(t, db, disk, o, nth) {
			break
		}
		if p, err := Prune(t.Context(), Dir(disk, "/store"), 1); err != nil || p.Files != 0 || p.Busy {
			t.Errorf("after sync %d of names failed, Prune reports %+v: %v", nth, p, err)
		}
		if names, err := disk.List("/store/partial"); err != nil || len(names) > 0 {
			t.Errorf("after sync %d of names failed, partial objects are left: %v, %v", nth, names, err)
		}
	}
}

// A device may fail for more than one call, and a signal may kill a process. The sync of names of
// the next backup fails, too.
func TestBackup_AfterOneThatDiedAtASyncOfNamesALaterOneSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	for _, fate := range []vfs.SyncFate{vfs.SyncDropped, vfs.SyncNotTried} {
		for nth := int64(1); ; nth++ {
			db, o, _ := newFake()
			disk := memfs.New()
			dying := faultfs.New(disk)
			last := dying.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: nth, Sync: fate})
			dead := false
			dying.Observe(func(vfs.Op) {
				if !dead && last.Fired() > 0 {
					dead = true
					dying.Add(faultfs.Rule{Forever: true})
				}
			})
			_, died := Backup(t.Context(), db, Dir(dying, "/store"), o)
			if last.Fired() == 0 {
				break
			}
			failing := faultfs.New(disk)
			failing.Add(faultfs.Rule{Op: vfs.OpSyncDir, Path: "/store/files", Sync: vfs.SyncDropped})
			_, failed := Backup(t.Context(), db, Dir(failing, "/store"), o)
			r, err := Backup(t.Context(), db, Dir(disk, "/store"), o)
			must(t, err)
			if _, err := Verify(t.Context(), Dir(disk.Crash(memfs.KeepNone, nil), "/store"), r.ID); err != nil {
				t.Errorf("after %v at sync %d of names (fate %d), and then %v: %v", died, nth, fate, failed, err)
			}
		}
	}
}

// look lists the files of a store, as a backup does that begins.
func look(t *testing.T, store Store) {
	t.Helper()
	for _, err := range store.List(t.Context(), filesDir) {
		must(t, err)
	}
}

// Another backup takes the note away before the file has its name. So a Put makes it again when
// the sync has failed.
func TestDir_AFailedSyncOfANameIsNotedAgain(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := faultfs.New(disk)
	name := filesDir + strings.Repeat("0", 64)
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Path: "/store/files", Sync: vfs.SyncDropped})
	faults.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRename {
			look(t, Dir(disk, "/store"))
		}
	})
	if err := Dir(faults, "/store").Put(t.Context(), name, sectionOf([]byte("x"))); !errors.Is(err, faultfs.ErrInjected) {
		t.Fatalf("Put returns %v", err)
	}
	look(t, Dir(disk, "/store"))
	if _, err := disk.Crash(memfs.KeepNone, nil).Stat("/store/" + name); err != nil {
		t.Error(err)
	}
}

// Each note that stays makes the next backup put a file again.
func TestDir_NotesOfNamesGo(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	store, digits := Dir(disk, "/store"), strings.Repeat("0", 64)
	wantNone := func(when string) {
		t.Helper()
		if names, err := disk.List("/store/partial"); err != nil || len(names) > 0 {
			t.Errorf("%s, partial objects are left: %v, %v", when, names, err)
		}
	}
	must(t, store.Put(t.Context(), filesDir+digits, sectionOf([]byte("x"))))
	wantNone("after a Put")
	must(t, store.Delete(t.Context(), filesDir+digits))
	note, err := disk.Create("/store/partial/"+digits, vfs.CatTemp)
	must(t, err)
	must(t, note.Close())
	look(t, store)
	wantNone("after a note without a file")
}

func TestBackup_HasATimeAfterTheNewestBackup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		newest string // its time
		want   string // the time of the next one, empty if there is none
	}{
		{"21000101T000000.000000000Z", "21000101T000000.000000001Z"},
		{"99991231T235959.999999998Z", "99991231T235959.999999999Z"},
		{"99991231T235959.999999999Z", ""},
	} {
		db, o, store := newFake()
		l := sample()
		l.id = c.newest + "-0123456789abcdef"
		must(t, store.Put(t.Context(), listsDir+l.id, sectionOf(l.encode())))
		r, err := Backup(t.Context(), db, store, o)
		switch {
		case c.want == "":
			if err == nil || errors.Is(err, base.ErrCorrupt) || !strings.Contains(err.Error(), l.id) {
				t.Errorf("after %s: %v", l.id, err)
			}
		case err != nil || r.Time.Format(idTime) != c.want:
			t.Errorf("after %s: a backup at %v, %v", l.id, r.Time, err)
		}
	}
}

// A steadyDatabase has the same files in each checkpoint.
type steadyDatabase struct {
	fs    vfs.FS
	files map[string][]byte
}

func (d *steadyDatabase) Checkpoint(_ context.Context, dir string) error {
	if err := d.fs.MkdirAll(dir); err != nil {
		return err
	}
	for name, content := range d.files {
		f, err := d.fs.Create(d.fs.Join(dir, name), vfs.CatTable)
		if err == nil {
			_, err = f.WriteAt(content, 0)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newSteady returns a database, and the options of its backups. Its table is larger than what
// a mark covers.
func newSteady() (*steadyDatabase, Options) {
	fs := memfs.New()
	return &steadyDatabase{fs: fs, files: map[string][]byte{
		"000001.table":    bytes.Repeat([]byte("table"), markTail),
		"MANIFEST-000001": bytes.Repeat([]byte("manifest"), markTail),
	}}, Options{FS: fs, Temp: "/temp", Workers: 1}
}

// objectOf returns the name of the object of a file in a backup.
func objectOf(t *testing.T, store Store, id, name string) string {
	t.Helper()
	l, err := getList(t.Context(), store, id)
	must(t, err)
	for i := range l.files {
		if l.files[i].name == name {
			return l.files[i].object()
		}
	}
	t.Fatalf("backup %s has no %s", id, name)
	return ""
}

// flipped returns b with another first bit.
func flipped(b []byte) []byte {
	b = bytes.Clone(b)
	b[0] ^= 1
	return b
}

func TestBackup_ReplacesAnObjectThatVerifyFoundDamaged(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"000001.table", "MANIFEST-000001"} {
		db, o := newSteady()
		store := Dir(memfs.New(), "/store")
		first, err := Backup(t.Context(), db, store, o)
		must(t, err)
		must(t, store.Put(t.Context(), objectOf(t, store, first.ID, name), sectionOf(flipped(db.files[name]))))
		if _, err := Verify(t.Context(), store, ""); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("%s: Verify of a damaged backup returns %v", name, err)
		}
		o.Verify = true
		r, err := Backup(t.Context(), db, store, o)
		must(t, err)
		if r.Copied != 1 || r.Replaced != 1 || r.CopiedBytes != int64(len(db.files[name])) {
			t.Errorf("%s: the backup reports %+v", name, r)
		}
		for _, id := range []string{first.ID, r.ID} {
			if _, err := Verify(t.Context(), store, id); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r, err = Backup(t.Context(), db, store, o); err != nil || r.Copied != 0 || r.Replaced != 0 {
			t.Errorf("%s: a backup to an intact store reports %+v: %v", name, r, err)
		}
	}
}

// An unreadable store fails to read an object until the next Put of it.
type unreadable struct {
	Store
	name string
}

func (u *unreadable) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == u.name {
		return nil, vfs.ErrIO
	}
	return u.Store.Get(ctx, name)
}

func (u *unreadable) Put(ctx context.Context, name string, content *io.SectionReader) error {
	err := u.Store.Put(ctx, name, content)
	if err == nil && name == u.name {
		u.name = ""
	}
	return err
}

func TestBackup_ThatVerifiesReplacesAnObjectThatCannotBeRead(t *testing.T) {
	t.Parallel()
	db, o := newSteady()
	store := &unreadable{Store: Dir(memfs.New(), "/store")}
	first, err := Backup(t.Context(), db, store, o)
	must(t, err)
	store.name = objectOf(t, store, first.ID, "000001.table")
	o.Verify = true
	if r, err := Backup(t.Context(), db, store, o); err != nil || r.Replaced != 1 {
		t.Errorf("the backup reports %+v: %v", r, err)
	}
	if _, err := Verify(t.Context(), store, first.ID); err != nil {
		t.Error(err)
	}
}

// The damage is outside of what the mark of the table covers.
func TestBackup_ThatVerifiesReplacesNoObjectByADamagedFile(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} { // whether the object is damaged, too
		db, o := newSteady()
		store := Dir(memfs.New(), "/store")
		first, err := Backup(t.Context(), db, store, o)
		must(t, err)
		object, content := objectOf(t, store, first.ID, "000001.table"), db.files["000001.table"]
		if stored {
			content = bytes.Clone(content)
			content[1] ^= 1
			must(t, store.Put(t.Context(), object, sectionOf(content)))
		}
		db.files["000001.table"] = flipped(db.files["000001.table"])
		o.Verify = true
		r, err := Backup(t.Context(), db, store, o)
		must(t, err)
		if got, err := getSmall(t.Context(), store, object, 1<<20); err != nil || !bytes.Equal(got, content) || r.Replaced != 0 {
			t.Errorf("object damaged: %t: the backup has changed it, and reports %+v: %v", stored, r, err)
		}
		if same := objectOf(t, store, r.ID, "000001.table") == object; same == stored {
			t.Errorf("object damaged: %t: the backup uses it: %t", stored, same)
		}
		if _, err := Verify(t.Context(), store, r.ID); err != nil {
			t.Errorf("object damaged: %t: %v", stored, err)
		}
	}
}

func TestBackup_ThatCannotRemoveItsDirectoryReportsTheBackupBesideTheError(t *testing.T) {
	t.Parallel()
	db, o := newSteady()
	faults := faultfs.New(db.fs)
	faults.Add(faultfs.Rule{Op: vfs.OpRemove, Path: checkpointName})
	o.FS = faults
	store := Dir(memfs.New(), "/store")
	r, err := Backup(t.Context(), db, store, o)
	if !errors.Is(err, vfs.ErrIO) || r.ID == "" || r.Copied != len(db.files) {
		t.Errorf("the backup reports %+v, %v", r, err)
	}
	if _, err := Verify(t.Context(), store, r.ID); err != nil {
		t.Error(err)
	}
}

// A power cut brings the damaged object back if the name of the new one is not durable.
func TestBackup_ThatReplacesAnObjectSurvivesAPowerCutAfterAFailedSyncOfNames(t *testing.T) {
	t.Parallel()
	for nth := int64(1); ; nth++ {
		db, o := newSteady()
		disk := memfs.New()
		first, err := Backup(t.Context(), db, Dir(disk, "/store"), o)
		must(t, err)
		must(t, Dir(disk, "/store").Put(t.Context(), objectOf(t, Dir(disk, "/store"), first.ID, "000001.table"),
			sectionOf(flipped(db.files["000001.table"]))))
		o.Verify = true
		if !backedUpAgain(t, db, disk, o, nth) {
			break
		}
	}
}

// The attempt before the backup lost its claim took the sum of the list without reading the file.
func TestBackup_ReadsAFileAgainIfTheStoreLosesItsObjectBetweenTwoAttempts(t *testing.T) {
	t.Parallel()
	db, o := newSteady()
	must(t, db.Checkpoint(t.Context(), "/checkpoint"))
	b := backup{o: &o, store: Dir(memfs.New(), "/store"), dir: "/checkpoint"}
	f := file{name: "000001.table"}
	must(t, b.copy(t.Context(), &f))
	right := f.sum
	f.sum[0] ^= 1 // the list has the sum of what the file was before it decayed
	b.known = map[string]file{f.name: f}
	must(t, b.copy(t.Context(), &f))
	if f.sum != right {
		t.Errorf("the backup has the sum %v of a file with the sum %v", f.sum, right)
	}
}
