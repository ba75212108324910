package steps

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// wantCheckpointOf demands that dir has a sound copy of a database that has the key.
func wantCheckpointOf(t *testing.T, disk vfs.FS, dir, key string) {
	t.Helper()
	db, err := inside.Open(dir, &stoat.Options{FS: disk}, work.Executor{})
	testkit.Must(t, err)
	_, err = db.Check(t.Context(), stoat.CheckOptions{})
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		_, err := tx.Get([]byte(key))
		return err
	}))
	testkit.Must(t, db.Close())
}

func TestCheckpoint_TwoDatabasesThatCopyThemselvesToOneNameAreNotMixed(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	between := &interposer{point: work.PointCopy}
	first, err := inside.Open("/first", &stoat.Options{FS: disk}, work.Executor{Manual: true, Reach: between.at})
	testkit.Must(t, err)
	flushKey(t, first, "first")
	second := openStillOn(t, disk)
	flushKey(t, second, "second")
	met := false
	between.do = func() {
		if met {
			return
		}
		met = true
		if err := checkpointBeside(t, second); !errors.Is(err, stoat.ErrLocked) {
			t.Errorf("a copy is being made there, and another one ends with %v, want ErrLocked", err)
		}
	}
	testkit.Must(t, first.Checkpoint(t.Context(), "/copy"))
	if !met {
		t.Error("nothing was copied")
	}
	if err := second.Checkpoint(t.Context(), "/copy"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("there is a copy, and another one ends with %v, want ErrExist", err)
	}
	wantCheckpointOf(t, disk, "/copy", "first")
	testkit.Must(t, first.Close())
}

// checkpointBeside makes a checkpoint in /copy on another goroutine, because this one
// holds the locks of a database that makes one, and locks are ranked by goroutine.
func checkpointBeside(t *testing.T, db *inside.DB) error {
	ended := make(chan error)
	go func() { ended <- db.Checkpoint(t.Context(), "/copy") }()
	return <-ended
}

// A creatingFS tells before it makes a file.
type creatingFS struct {
	vfs.FS
	creates func(name string)
}

func (f *creatingFS) Create(name string, cat vfs.Category) (vfs.File, error) {
	f.creates(name)
	return f.FS.Create(name, cat)
}

// A copy gets its lock file after it got its name. That name may be the one under
// which another copy would be made.
func TestCheckpoint_ACopyThatHasJustGotItsNameIsNotTakenForALeftover(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	second := openStillOn(t, disk)
	flushKey(t, second, "second")
	met := false
	between := &creatingFS{FS: disk, creates: func(name string) {
		if name != "/copy.tmp/"+newdir.LockName {
			return
		}
		met = true
		if err := checkpointBeside(t, second); !errors.Is(err, stoat.ErrLocked) {
			t.Errorf("a copy has just got this name, and another one ends with %v, want ErrLocked", err)
		}
	}}
	first, err := inside.Open("/first", &stoat.Options{FS: between}, work.Executor{})
	testkit.Must(t, err)
	testkit.Must(t, first.Update(func(tx stoat.Txn) error { return tx.Set([]byte("first"), nil) }))
	testkit.Must(t, first.Checkpoint(t.Context(), "/copy.tmp"))
	if !met {
		t.Error("the copy has no lock file")
	}
	if err := second.Checkpoint(t.Context(), "/copy"); err == nil {
		t.Error("a database was taken for a leftover")
	}
	wantCheckpointOf(t, disk, "/copy.tmp", "first")
	testkit.Must(t, first.Close())
}

func TestCheckpoint_ACopyDoesNotReplaceWhatHasGotItsNameMeanwhile(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	between := &interposer{point: work.PointCopy, do: func() { testkit.Must(t, disk.MkdirAll("/copy")) }}
	db, err := inside.Open("/db", &stoat.Options{FS: disk}, work.Executor{Manual: true, Reach: between.at})
	testkit.Must(t, err)
	flushKey(t, db, "key")
	if err := db.Checkpoint(t.Context(), "/copy"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another program has made this directory, and the copy ends with %v, want ErrExist", err)
	}
	if _, err := disk.Stat("/copy.tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a copy that has failed this is left: %v", err)
	}
	testkit.Must(t, db.Close())
}
