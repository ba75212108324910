//go:build unix

package s3store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/filebackup/storetest"
	"github.com/stoatdb/stoat/s3store"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStore_KeepsThePromisesOfAStoreOnARealServer(t *testing.T) {
	t.Parallel()
	client, bucket := newServer(t)
	n := 0
	storetest.Run(t, func(*testing.T) filebackup.Store {
		n++
		return s3store.New(client, bucket, fmt.Sprintf("/store %d/x/", n))
	})
}

// dump returns all keys and values.
func dump(t *testing.T, db *stoat.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, db.View(func(tx stoat.Txn) error {
		for k, v := range tx.All() {
			all[string(k)] = string(v)
		}
		return tx.Err()
	}))
	return all
}

func TestBackup_AChainOnARealServerRestoresEachSnapshot(t *testing.T) {
	t.Parallel()
	client, bucket := newServer(t)
	store := s3store.New(client, bucket, "db")
	at := t.TempDir()
	db, err := stoat.Open(filepath.Join(at, "db"), nil)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	want := map[string]map[string]string{}
	for i := range 6 {
		must(t, db.Update(func(tx stoat.Txn) error {
			for k := range 200 {
				if err := tx.Set(fmt.Appendf(nil, "key%03d", (i*50+k)%400), fmt.Appendf(nil, "%0*d", 900, i*1000+k)); err != nil {
					return err
				}
			}
			return tx.Delete(fmt.Appendf(nil, "key%03d", i))
		}))
		r, err := filebackup.Backup(t.Context(), db, store, filebackup.Options{Temp: filepath.Join(at, "temp")})
		must(t, err)
		want[r.ID] = dump(t, db)
	}
	pruned, err := filebackup.Prune(t.Context(), store, 4)
	must(t, err)
	if len(pruned.Backups) != 2 || pruned.Busy {
		t.Errorf("Prune deleted %+v", pruned)
	}
	infos, err := filebackup.List(t.Context(), store)
	must(t, err)
	if len(infos) != 4 {
		t.Fatalf("the store has %d backups", len(infos))
	}
	for i, info := range infos {
		_, err := filebackup.Verify(t.Context(), store, info.ID)
		must(t, err)
		dir := filepath.Join(at, fmt.Sprint("restored", i))
		_, err = filebackup.Restore(t.Context(), store, info.ID, dir, filebackup.RestoreOptions{})
		must(t, err)
		copied, err := stoat.Open(dir, nil)
		must(t, err)
		if got := dump(t, copied); !maps.Equal(got, want[info.ID]) {
			t.Errorf("backup %d has %d keys, want %d, or other values", i, len(got), len(want[info.ID]))
		}
		must(t, copied.Close())
	}
	// What another program does to the bucket is noticed.
	for o, err := range store.List(t.Context(), "files/") {
		must(t, err)
		must(t, store.Delete(t.Context(), o.Name))
		break
	}
	damaged := 0
	for _, info := range infos {
		if _, err := filebackup.Verify(t.Context(), store, info.ID); errors.Is(err, stoat.ErrCorrupt) {
			damaged++
		}
	}
	if damaged == 0 {
		t.Error("no backup misses the deleted file")
	}
}

func TestStore_AMissingBucketIsNotAMissingObject(t *testing.T) {
	t.Parallel()
	client, _ := newServer(t)
	store := s3store.New(client, "no-such-bucket", "")
	if _, err := store.Get(t.Context(), "files/a"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get: %v", err)
	}
	if err := store.Delete(t.Context(), "files/a"); err == nil {
		t.Error("Delete succeeds")
	}
	var answer minio.ErrorResponse
	if _, err := filebackup.List(t.Context(), store); !errors.As(err, &answer) || answer.Code != minio.NoSuchBucket {
		t.Errorf("List: %v", err)
	}
}
