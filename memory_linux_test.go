package stoat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/vfs"
)

// A file that somebody cuts is what a lost device looks like to a mapping.
func TestALostPageIsAnErrorAndNotTheEndOfTheProcess(t *testing.T) {
	t.Parallel()
	const values = 2000
	dir := t.TempDir()
	db := memoryDB(t, nil, dir, values)
	defer db.Close()
	readMemory(t, db, values)
	mustCut(t, dir, ".table", ".values")
	failed := 0
	for i := range values {
		sum := byte(0)
		err := db.View(func(tx *Txn) error {
			v, err := tx.Get(memoryKey(i))
			for _, b := range v {
				sum += b // the user's own look
			}
			return err
		})
		if err != nil && !errors.Is(err, vfs.ErrIO) && !strings.Contains(err.Error(), "populate") {
			t.Fatalf("key %d: %v", i, err)
		}
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("nothing failed although all tables and value files were cut")
	}
	if err := db.Update(func(tx *Txn) error { return tx.Set([]byte("new"), []byte("1")) }); err != nil {
		t.Fatalf("writing after pages were lost: %v", err)
	}
	if err := db.View(func(tx *Txn) error { _, err := tx.Get([]byte("new")); return err }); err != nil {
		t.Fatalf("reading what is in memory after pages were lost: %v", err)
	}
}

// mustCut cuts all files with one of the endings to nothing.
func mustCut(t *testing.T, dir string, endings ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		for _, ending := range endings {
			if strings.HasSuffix(e.Name(), ending) {
				if err := os.Truncate(filepath.Join(dir, e.Name()), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestMappedFilesKeepNoDescriptors(t *testing.T) {
	t.Parallel()
	const values = 2000
	dir := t.TempDir()
	db := memoryDB(t, nil, dir, values)
	defer db.Close()
	readMemory(t, db, values)
	if m := db.Stats().Memory; m.OpenTables == 0 || m.OpenValues == 0 {
		t.Fatalf("not everything is open: %+v", m)
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		// The descriptor of the listing itself is gone by now.
		if name, err := os.Readlink(l); err == nil && strings.HasPrefix(name, dir) &&
			(strings.HasSuffix(name, ".table") || strings.HasSuffix(name, ".values")) {
			t.Errorf("%s is open", name)
		}
	}
}
