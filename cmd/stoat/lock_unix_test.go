//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

func TestSalvage_NamesTheDirectoryInWhichAnotherOneWorks(t *testing.T) {
	t.Parallel()
	dir := create(t)
	if err := os.Mkdir(dir+"2.tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := vfs.OS().LockDir(dir + "2.tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	fail(t, exitError, "stoat: another process works in "+dir+"2.tmp\n", "salvage", dir, dir+"2")
}
