package filebackup_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/filebackup/storetest"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestDir_KeepsThePromisesOfAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) filebackup.Store { return filebackup.Dir(memfs.New(), "/backups/db") })
}

func TestDir_KeepsThePromisesOfAStoreOnADisk(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) filebackup.Store { return filebackup.Dir(nil, t.TempDir()) })
}

// put stores a text.
func put(ctx context.Context, s filebackup.Store, name, text string) error {
	return s.Put(ctx, name, io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))))
}

// get returns an object as text.
func get(t *testing.T, s filebackup.Store, name string) (string, error) {
	t.Helper()
	r, err := s.Get(t.Context(), name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), errors.Join(err, r.Close())
}

func TestDir_AFailedSyncOfANameRemovesOnlyANewObject(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	s := filebackup.Dir(disk, "/store")
	if err := put(t.Context(), s, "claims/a", "old"); err != nil {
		t.Fatal(err)
	}
	fault := disk.Add(faultfs.Rule{Op: vfs.OpSyncDir, Path: "/store/?*", Err: vfs.ErrIO, Forever: true})
	for _, name := range []string{"claims/a", "claims/b"} {
		if err := put(t.Context(), s, name, "new"); !errors.Is(err, vfs.ErrIO) {
			t.Errorf("Put of %s returns %v", name, err)
		}
	}
	if fault.Fired() != 2 { // a file of a database comes later
		t.Errorf("%d calls failed", fault.Fired())
	}
	if got, err := get(t, s, "claims/a"); err != nil || got != "old" && got != "new" {
		t.Errorf("the object that was there before has %q: %v", got, err)
	}
	if _, err := get(t, s, "claims/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the new object leads to %v", err)
	}
	// Another backup may have put the same file of a database, and rely on it.
	if err := put(t.Context(), s, "files/c", "content"); !errors.Is(err, vfs.ErrIO) {
		t.Errorf("Put of a file returns %v", err)
	}
	if got, err := get(t, s, "files/c"); err != nil || got != "content" {
		t.Errorf("the file has %q: %v", got, err)
	}
}

func TestDir_APutRepeatsIfAPruneDeletesItsPartialObject(t *testing.T) {
	t.Parallel()
	for losses := range 4 {
		disk := memfs.New()
		s := filebackup.Dir(disk, "/store")
		if err := put(t.Context(), s, "claims/a", "old"); err != nil {
			t.Fatal(err)
		}
		lost := 0
		disk.SetHook(func(op vfs.Op) {
			if op.Kind == vfs.OpRename && lost < losses {
				lost++
				if err := disk.Remove(op.Path); err != nil {
					t.Error(err)
				}
			}
		})
		err := put(t.Context(), s, "claims/a", "new")
		disk.SetHook(nil)
		want := map[bool]string{true: "new", false: "old"}[losses < 3]
		if got, errGet := get(t, s, "claims/a"); got != want || errGet != nil || (err == nil) != (losses < 3) {
			t.Errorf("after %d losses the object has %q: %v, %v", losses, got, err, errGet)
		}
	}
}

func TestDir_ACancelledCallChangesNothing(t *testing.T) {
	t.Parallel()
	s := filebackup.Dir(memfs.New(), "/store")
	if err := put(t.Context(), s, "files/a", "old"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := put(ctx, s, "files/a", "new"); !errors.Is(err, context.Canceled) {
		t.Errorf("Put returns %v", err)
	}
	if err := s.Delete(ctx, "files/a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete returns %v", err)
	}
	if got, err := get(t, s, "files/a"); err != nil || got != "old" {
		t.Errorf("the object has %q: %v", got, err)
	}
}
