package golden

import (
	"io"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fileBackupZip has a store of file backups of version 1, in a directory. Its backups must
// be restored for ever. It is made as the file of a feature:
//
//	go test ./tests/golden -args -stoat.make-golden=filebackup-v1
const (
	fileBackupName = "filebackup-v1"
	fileBackupZip  = "testdata/" + fileBackupName + ".zip"
)

// fileBackupWrites are the writes before each backup: keys [from, to) get a value of size
// bytes.
var fileBackupWrites = []struct {
	from, to, size int
	fill           byte
}{{0, 40, 700, 'a'}, {30, 50, 90, 'b'}}

func TestGolden_FileBackupsOfVersion1AreRestored(t *testing.T) {
	t.Parallel()
	if *makeGolden == fileBackupName {
		makeFileBackups(t)
	}
	ctx, disk := t.Context(), readGolden(t, fileBackupZip)
	store := filebackup.Dir(disk, "/store")
	backups, err := filebackup.List(ctx, store)
	testkit.Must(t, err)
	if len(backups) != len(fileBackupWrites) {
		t.Fatalf("there are %d backups, want %d", len(backups), len(fileBackupWrites))
	}
	for i, b := range backups {
		_, err := filebackup.Verify(ctx, store, b.ID)
		testkit.Must(t, err)
		checkFileBackup(t, disk, store, b.ID, i+1)
	}

	// A new backup goes beside the old ones, which a Prune can delete.
	db, err := stoat.Open("/restored-"+backups[1].ID, goldenOptions(disk))
	testkit.Must(t, err)
	_, err = filebackup.Backup(ctx, db, store, filebackup.Options{FS: disk, Temp: "/temp"})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	pruned, err := filebackup.Prune(ctx, store, 1)
	testkit.Must(t, err)
	if len(pruned.Backups) != 2 || pruned.Backups[0] != backups[0].ID || pruned.Files == 0 {
		t.Errorf("Prune reports %+v", pruned)
	}
	newest, err := filebackup.List(ctx, store)
	testkit.Must(t, err)
	checkFileBackup(t, disk, store, newest[0].ID, len(fileBackupWrites))
}

// checkFileBackup restores a backup, which has the first writes.
func checkFileBackup(t *testing.T, disk *memfs.FS, store filebackup.Store, id string, writes int) {
	t.Helper()
	dir := "/restored-" + id
	_, err := filebackup.Restore(t.Context(), store, id, dir, filebackup.RestoreOptions{FS: disk})
	testkit.Must(t, err)
	db, err := stoat.Open(dir, goldenOptions(disk))
	testkit.Must(t, err)
	want := map[string]string{}
	for _, w := range fileBackupWrites[:writes] {
		for i := w.from; i < w.to; i++ {
			want[string(testkit.Key(i))] = strings.Repeat(string(w.fill), w.size)
		}
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		n := 0
		for key, value := range tx.All() {
			if n++; want[string(key)] != string(value) {
				t.Errorf("backup %s: %s is %.20q, want %.20q", id, key, value, want[string(key)])
			}
		}
		if n != len(want) {
			t.Errorf("backup %s: %d keys, want %d", id, n, len(want))
		}
		return tx.Err()
	}))
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

// makeFileBackups writes the golden file.
func makeFileBackups(t *testing.T) {
	t.Helper()
	disk := memfs.New()
	store := filebackup.Dir(disk, "/store")
	db, err := stoat.Open("/db", goldenOptions(disk))
	testkit.Must(t, err)
	for _, w := range fileBackupWrites {
		testkit.SetKeys(t, db, w.from, w.to, w.size, w.fill)
		_, err := filebackup.Backup(t.Context(), db, store, filebackup.Options{FS: disk, Temp: "/temp"})
		testkit.Must(t, err)
	}
	testkit.Must(t, db.Close())
	files := map[string]string{}
	for o, err := range store.List(t.Context(), "") {
		testkit.Must(t, err)
		r, err := store.Get(t.Context(), o.Name)
		testkit.Must(t, err)
		content, err := io.ReadAll(r)
		testkit.Must(t, err)
		testkit.Must(t, r.Close())
		files["store/"+o.Name] = string(content)
	}
	zipFiles(t, fileBackupZip, files)
}
