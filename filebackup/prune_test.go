package filebackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// backUps makes n backups of a fake database, and returns their IDs.
func backUps(t *testing.T, n int) (ids []string, store Store) {
	t.Helper()
	db, o, store := newFake()
	for range n {
		r, err := Backup(t.Context(), db, store, o)
		must(t, err)
		ids = append(ids, r.ID)
	}
	return ids, store
}

func TestPrune_DeletesNothingWhileAListThatItKeepsCannotBeRead(t *testing.T) {
	t.Parallel()
	for want, content := range map[error]string{
		base.ErrCorrupt: "damage",
		base.ErrVersion: fmt.Sprintf("%s%d\n", listHead, listFormat+1),
	} {
		for damaged := range 2 {
			ids, store := backUps(t, 4)
			must(t, store.Put(t.Context(), listsDir+ids[3-damaged], sectionOf([]byte(content))))
			must(t, store.Put(t.Context(), filesDir+strings.Repeat("0", 64), sectionOf([]byte("x"))))
			r, err := Prune(t.Context(), store, 1+damaged)
			if !errors.Is(err, want) || len(r.Backups) != 0 || r.Files != 0 {
				t.Errorf("Prune reports %+v: %v", r, err)
			}
			left, err := idsOf(t.Context(), store)
			must(t, err)
			if !slices.Equal(left, ids) {
				t.Errorf("the backups %v are left of %v", left, ids)
			}
			for _, id := range ids[:2] {
				if _, err := Verify(t.Context(), store, id); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestPrune_DeletesADamagedListThatItDoesNotKeep(t *testing.T) {
	t.Parallel()
	ids, store := backUps(t, 3)
	must(t, store.Put(t.Context(), listsDir+ids[0], sectionOf([]byte("damage"))))
	r, err := Prune(t.Context(), store, 2)
	must(t, err)
	if !slices.Equal(r.Backups, ids[:1]) {
		t.Errorf("Prune deleted %v of %v", r.Backups, ids)
	}
}

// A raced store deletes a list before the Get of it.
type raced struct {
	Store
	victim string
}

func (r *raced) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == r.victim {
		if err := r.Delete(ctx, name); err != nil {
			return nil, err
		}
	}
	return r.Store.Get(ctx, name)
}

func TestPrune_KeepsAsManyBackupsWhileAListDisappears(t *testing.T) {
	t.Parallel()
	ids, store := backUps(t, 4)
	r, err := Prune(t.Context(), &raced{store, listsDir + ids[3]}, 2)
	must(t, err)
	if !slices.Equal(r.Backups, ids[:1]) {
		t.Errorf("Prune deleted %v of %v", r.Backups, ids)
	}
	if left, err := idsOf(t.Context(), store); err != nil || !slices.Equal(left, ids[1:3]) {
		t.Errorf("the backups %v are left of %v: %v", left, ids, err)
	}
}

func TestPrune_TakesNoFilesForAListThatDisappears(t *testing.T) {
	t.Parallel()
	ids, store := backUps(t, 2)
	p := pruning{store: &raced{store, listsDir + ids[0]}}
	needed, err := p.needed(t.Context())
	must(t, err)
	if len(needed) != 2 {
		t.Errorf("%d files are needed, want those of the other list", len(needed))
	}
}

func TestBackup_UsesTheListBeforeOneThatDisappears(t *testing.T) {
	t.Parallel()
	ids, store := backUps(t, 2)
	b := backup{store: &raced{store, listsDir + ids[1]}}
	must(t, b.look(t.Context()))
	if len(b.known) != 2 || b.last != ids[1] {
		t.Errorf("the backup knows %d files, and %s as the last ID", len(b.known), b.last)
	}
}

// backUpsOfOthers makes two backups that have no file in common, and returns their IDs.
func backUpsOfOthers(t *testing.T) (ids []string, store Store) {
	t.Helper()
	fs := memfs.New()
	db, store := &changing{fs: fs}, Dir(memfs.New(), "/store")
	for range 2 {
		r, err := Backup(t.Context(), db, store, Options{FS: fs, Temp: "/temp"})
		must(t, err)
		ids = append(ids, r.ID)
	}
	return ids, store
}

// A deleting store deletes a backup and prunes when a file is read.
type deleting struct {
	Store
	id   string
	once sync.Once
}

func (d *deleting) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	var err error
	if strings.HasPrefix(name, filesDir) {
		d.once.Do(func() {
			if err = Delete(ctx, d.Store, d.id); err == nil {
				_, err = Prune(ctx, d.Store, 1)
			}
		})
	}
	if err != nil {
		return nil, err
	}
	return d.Store.Get(ctx, name)
}

func TestPrune_OfABackupThatIsReadIsNoCorruption(t *testing.T) {
	t.Parallel()
	ids, store := backUpsOfOthers(t)
	_, err := Restore(t.Context(), &deleting{Store: store, id: ids[0]}, ids[0], "/r", RestoreOptions{FS: memfs.New(), Workers: 1})
	if !errors.Is(err, ErrNoBackup) || errors.Is(err, base.ErrCorrupt) {
		t.Errorf("Restore returns %v", err)
	}
	ids, store = backUpsOfOthers(t)
	if _, err := Verify(t.Context(), &deleting{Store: store, id: ids[0]}, ids[0]); !errors.Is(err, ErrNoBackup) || errors.Is(err, base.ErrCorrupt) {
		t.Errorf("Verify returns %v", err)
	}
}

// A spoiled store damages a list after its first Get.
type spoiled struct {
	Store
	list string
}

func (s *spoiled) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	content, err := s.Store.Get(ctx, name)
	if err == nil && name == s.list {
		s.list = ""
		err = s.Put(ctx, name, sectionOf([]byte("damage")))
	}
	return content, err
}

// Prune reads the lists again when it knows that no backup is under way.
func TestPrune_DeletesNoFileWhenAListIsDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	ids, store := backUps(t, 2)
	must(t, store.Put(t.Context(), filesDir+strings.Repeat("0", 64), sectionOf([]byte("x"))))
	r, err := Prune(t.Context(), &spoiled{store, listsDir + ids[1]}, 2)
	if !errors.Is(err, base.ErrCorrupt) || r.Files != 0 {
		t.Errorf("Prune reports %+v: %v", r, err)
	}
}

// The lists may be lost, or come last in a copy of the store.
func TestPrune_WithoutAListDeletesNoFile(t *testing.T) {
	t.Parallel()
	db, o, _ := newFake()
	disk := memfs.New()
	store := Dir(disk, "/store")
	for range 2 {
		_, err := Backup(t.Context(), db, store, o)
		must(t, err)
	}
	must(t, disk.Rename("/store/lists", "/store/lost"))
	r, err := Prune(t.Context(), store, 1)
	if !errors.Is(err, ErrNoBackup) || r.Files != 0 {
		t.Errorf("Prune reports %+v: %v", r, err)
	}
	must(t, disk.Rename("/store/lost", "/store/lists"))
	_, err = Verify(t.Context(), store, "")
	must(t, err)
}

func TestPrune_LeavesFilesThatNoBackupMade(t *testing.T) {
	t.Parallel()
	store := Dir(memfs.New(), "/project")
	names := []string{filesDir + "a", filesDir + "sub/thesis.txt", filesDir + strings.Repeat("A", 64), filesDir + strings.Repeat("0", 63),
		partialDir + "notes", partialDir + strings.Repeat("0", 64)}
	for _, name := range names {
		must(t, store.Put(t.Context(), name, sectionOf([]byte("precious"))))
	}
	r, err := Prune(t.Context(), store, 1)
	must(t, err)
	if r.Files > 0 {
		t.Errorf("Prune of a directory that is no store deleted %d of %d files", r.Files, len(names))
	}
}

// A breaking store ends each file in the middle, as an answer of HTTP whose connection breaks.
type breaking struct{ Store }

func (b *breaking) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	content, err := b.Store.Get(ctx, name)
	if err == nil && strings.HasPrefix(name, filesDir) {
		return &broken{content}, nil
	}
	return content, err
}

type broken struct{ io.ReadCloser }

func (b *broken) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		n, err = n/2, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestBackup_ThatIsReadOverABreakingConnectionIsNotCorrupt(t *testing.T) {
	t.Parallel()
	ids, store := backUps(t, 1)
	_, err := Verify(t.Context(), &breaking{store}, ids[0])
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, base.ErrCorrupt) {
		t.Errorf("Verify returns %v", err)
	}
	_, err = Restore(t.Context(), &breaking{store}, ids[0], "/r", RestoreOptions{FS: memfs.New()})
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, base.ErrCorrupt) {
		t.Errorf("Restore returns %v", err)
	}
}

// A changing database has another table in each checkpoint.
type changing struct {
	fs vfs.FS
	n  int
}

func (d *changing) Checkpoint(_ context.Context, dir string) error {
	d.n++
	if err := d.fs.MkdirAll(dir); err != nil {
		return err
	}
	for _, name := range []string{"000001.table", "MANIFEST-000001"} {
		f, err := d.fs.Create(d.fs.Join(dir, name), vfs.CatTable)
		if err == nil {
			_, err = f.WriteAt(fmt.Appendf(nil, "%s of checkpoint %d", name, d.n), 0)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The system may take names for removed whose sync has failed. A power cut then brings them back.
func TestPrune_AfterAFailedSyncOfNamesTheNextOneLeavesNoListWithoutItsFiles(t *testing.T) {
	t.Parallel()
	for nth := int64(1); ; nth++ {
		fs, disk := memfs.New(), memfs.New()
		db := &changing{fs: fs}
		for range 3 {
			_, err := Backup(t.Context(), db, Dir(disk, "/store"), Options{FS: fs, Temp: "/temp"})
			must(t, err)
		}
		faults := faultfs.New(disk)
		fault := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: nth, Sync: vfs.SyncDropped})
		_, failed := Prune(t.Context(), Dir(faults, "/store"), 1)
		if fault.Fired() == 0 {
			break
		}
		_, err := Prune(t.Context(), Dir(disk, "/store"), 1)
		must(t, err)
		left := Dir(disk.Crash(memfs.KeepNone, nil), "/store")
		infos, err := List(t.Context(), left)
		must(t, err)
		if len(infos) == 0 {
			t.Errorf("after sync %d of names failed, no backup is left", nth)
		}
		for _, info := range infos {
			if _, err := Verify(t.Context(), left, info.ID); err != nil {
				t.Errorf("after sync %d of names failed with %v: %v", nth, failed, err)
			}
		}
	}
}
