package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// TestFaultsLife_ComesToAllWork holds the lives to what calls fail in: every kind of
// work behind.
func TestFaultsLife_ComesToAllWork(t *testing.T) {
	t.Parallel()
	var all testkit.WorkTally
	for _, scene := range Scenes(t) {
		l := &faultyLife{faultCase: &faultCase{scene: scene}, fs: faultfs.New(scene.disk.Clone()), m: scene.m.Clone(), rng: rand.New(rand.NewPCG(0, 0))}
		testkit.Must(t, l.live())
		t.Logf("scene %q, %d calls: %v", scene.name, l.fs.Calls(), &l.work)
		all.Add(&l.work)
	}
	// Whether there is room to gather depends on when background jobs have given back
	// the files that the disk of a scene had.
	if err := all.Lacks(testkit.Flushes, testkit.Merges, testkit.Joins, testkit.Gatherings, testkit.Rewrites, testkit.Streams); err != nil {
		t.Error(err)
	}
}

// TestFailedSync_EndsCommits holds that after a sync that failed, whatever the
// disk made of it, nothing is committed any more, reads go on, and Close says
// so too.
func TestFailedSync_EndsCommits(t *testing.T) {
	t.Parallel()
	for _, fate := range []vfs.SyncFate{vfs.SyncDropped, vfs.SyncKept, vfs.SyncHalf, vfs.SyncNotTried} {
		l := &faultyLife{faultCase: &faultCase{}, fs: faultfs.New(memfs.New()), m: model.NewMap()}
		var err error
		opts := testkit.Merging(stoat.Options{FS: l.fs, Clock: testkit.NewClock()})
		l.db, err = stoat.Open(testkit.Dir, &opts)
		testkit.Must(t, err)
		testkit.Must(t, l.commit(stoat.Synced, 3, 40)())
		l.fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatLog, Sync: fate})
		for range 3 {
			testkit.Must(t, l.commit(stoat.Synced, 3, 40)())
			testkit.Must(t, l.commit(stoat.Buffered, 3, 40)())
			testkit.Must(t, l.sync())
			testkit.Must(t, l.read())
		}
		if n, _ := l.fs.Failed(); n != 1 || len(l.doubts) != 6 || l.known != 1 {
			t.Errorf("fate %d: %d calls failed, %d commits did, commit %d is known; want 1, 6, 1", fate, n, len(l.doubts), l.known)
		}
		if err := l.db.Close(); !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("fate %d: Close says %v, want the error of the sync", fate, err)
		}
	}
}

// TestFullDisk fills a disk: commits fail with ErrNoSpace, reads go on, the
// database can be closed and opened, and when there is room again it goes on.
// Some disks cannot reserve what the log has promised to have.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, reserves := range []bool{true, false} {
		t.Run(fmt.Sprintf("reserves=%t", reserves), func(t *testing.T) {
			t.Parallel()
			testFullDisk(t, reserves)
		})
	}
}

func testFullDisk(t *testing.T, reserves bool) {
	r := modeltest.NewRun(modeltest.Shape{Keys: modeltest.KeySpaces[1], Memtable: testkit.SmallMemtable, Durability: stoat.Synced, Still: true})
	r.FS.SetReserves(reserves)
	_, err := r.Open(0, 0)
	testkit.Must(t, err)
	modeltest.CommitSome(t, r, 10, 100)
	r.FS.SetCapacity(r.FS.UsedBytes() + 300<<10)
	l := &faultyLife{faultCase: &faultCase{}, fs: faultfs.New(r.FS), db: r.DB, m: r.Model, known: r.Model.Last()}
	full := 0
	for tries := 0; tries < 60 || full == 0 && tries < 2000; tries++ {
		testkit.Must(t, l.commit(stoat.Synced, 6, 16<<10)())
		full += len(l.doubts)
	}
	if full == 0 {
		t.Fatal("the disk never became full")
	}
	testkit.Must(t, l.read())
	r.FS.SetCapacity(1 << 40)
	testkit.Must(t, l.commit(stoat.Synced, 6, 16<<10)())
	if len(l.doubts) > 0 {
		t.Error("the commit failed although there is room again")
	}
	testkit.Must(t, l.read())
	testkit.Must(t, l.db.Close())
}

// TestFullDisk_Open holds that a database whose disk is full can be opened
// and read, after a clean close and after a kill, and goes on when there is
// room again.
func TestFullDisk_Open(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		r := modeltest.NewRun(modeltest.Shape{Keys: modeltest.KeySpaces[1], Memtable: testkit.SmallMemtable, Durability: stoat.Synced, Still: true})
		_, err := r.Open(0, 0)
		testkit.Must(t, err)
		modeltest.CommitSome(t, r, 10, 100)
		if kill {
			testkit.Must(t, r.Abandon(r.FS.Clone()))
		} else {
			testkit.Must(t, r.Close())
		}
		r.FS.SetCapacity(r.FS.UsedBytes())
		if _, err := r.Open(r.Model.Last(), r.Model.Last()); err != nil {
			t.Errorf("kill %v: %v", kill, err)
			continue
		}
		testkit.Must(t, r.Verify())
		p, err := r.Begin(true)
		testkit.Must(t, err)
		testkit.Must(t, r.Write(p, "k", model.Version{Value: "v"}))
		r.Forget(p)
		if err := p.Tx.Commit(); err != nil && !errors.Is(err, stoat.ErrNoSpace) {
			t.Errorf("commit on the full disk: %v, want ErrNoSpace", err)
		} else if err == nil {
			r.Model.Commit([]model.Write{{Key: "k", Version: model.Version{Value: "v"}}})
		}
		r.FS.SetCapacity(1 << 40)
		modeltest.CommitSome(t, r, 5, 100)
		testkit.Must(t, r.Verify())
		testkit.Must(t, modeltest.OpReopen(r, nil))
		testkit.Must(t, r.Verify())
		testkit.Must(t, r.Close())
	}
}
