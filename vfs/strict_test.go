package vfs

import (
	"errors"
	"testing"
)

func TestAFailedSyncOfADirectoryIsNeverFollowedByOneThatSucceeds(t *testing.T) {
	t.Parallel()
	faults := NewFaults(NewVolatile())
	fs := Strict(faults, "/a")
	for _, dir := range []string{"/a", "/b"} {
		if err := fs.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := fs.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	faults.Add(Rule{Op: OpSyncDir, Path: "/b", Err: ErrIO})
	if err := fs.SyncDir("/b"); !errors.Is(err, ErrIO) {
		t.Fatal(err)
	}
	faults.Add(Rule{Op: OpSyncDir, Err: ErrIO})
	for range 3 {
		if err := fs.SyncDir("/a"); !errors.Is(err, ErrIO) {
			t.Fatalf("SyncDir after a failure: %v", err)
		}
	}
	if err := fs.SyncDir("/b"); err != nil {
		t.Fatalf("a directory that is tried again: %v", err)
	}
}

func TestADirectoryThatCouldNotBeOpenedIsSyncedWhenItCan(t *testing.T) {
	t.Parallel()
	faults := NewFaults(NewVolatile())
	fs := Strict(faults, "/a")
	if err := fs.MkdirAll("/a"); err != nil {
		t.Fatal(err)
	}
	faults.Add(Rule{Op: OpSyncDir, Err: ErrTooManyFiles})
	if err := fs.SyncDir("/a"); !errors.Is(err, ErrTooManyFiles) {
		t.Fatal(err)
	}
	if err := fs.SyncDir("/a"); err != nil {
		t.Fatalf("with descriptors again: %v", err)
	}
}
