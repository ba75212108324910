package crash

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A laneFS calls synced for the syncs of commits: they open a file of the log a second time.
type laneFS struct {
	vfs.FS
	syncs  atomic.Int64 // that have been carried out
	synced func(path string, sync func() error) error
}

type laneFile struct {
	vfs.File
	of *laneFS
}

func (l *laneFS) OpenReadWrite(path string, cat vfs.Category) (vfs.File, error) {
	f, err := l.FS.OpenReadWrite(path, cat)
	if err != nil || cat != vfs.CatLog {
		return f, err
	}
	return laneFile{f, l}, nil
}

func (f laneFile) SyncData() error { return f.of.synced(f.Name(), f.File.SyncData) }

// An aheadRun writes to a log that is synced in the background.
type aheadRun struct {
	disk *memfs.FS
	fs   *faultfs.FS
	lane *laneFS
	db   *inside.DB
	sets int
}

// newAheadRun opens a database whose log is never freed.
func newAheadRun() (r *aheadRun, err error) {
	r = &aheadRun{disk: memfs.New()}
	r.fs = faultfs.New(r.disk)
	r.lane = &laneFS{FS: r.fs, synced: func(_ string, sync func() error) error { return sync() }}
	r.db, err = inside.Open(testkit.Dir, &stoat.Options{FS: r.lane, MemtableSize: 1 << 20}, work.Executor{Overlap: true})
	return r, err
}

// set commits another key, and returns its version.
func (r *aheadRun) set(d stoat.Durability) (version uint64, err error) {
	r.sets++
	return r.setKey(r.sets, d)
}

// setKey commits key number n.
func (r *aheadRun) setKey(n int, d stoat.Durability) (version uint64, err error) {
	key, value := fmt.Appendf(nil, "%08d", n), []byte(testkit.Filled(500))
	var last stoat.Txn
	err = r.db.Update(func(tx stoat.Txn) error { last = tx; return tx.Set(key, value) }, stoat.WithDurability(d))
	if err != nil {
		return 0, err
	}
	return last.CommitVersion(), nil
}

// fill commits until the log has carried out a sync, which no commit waits for. After enough
// commits it only waits: the machine may let the goroutine of the sync wait for long.
func (r *aheadRun) fill() error {
	before := r.lane.syncs.Load()
	for deadline := time.Now().Add(time.Minute); r.lane.syncs.Load() == before; runtime.Gosched() {
		if r.sets < 1200 {
			if _, err := r.set(stoat.Buffered); err != nil {
				return err
			}
		} else if time.Now().After(deadline) {
			return errors.New("no sync has run in the background")
		}
	}
	return nil
}

// cut cuts the power, and demands all commits up to the acknowledged one.
func (r *aheadRun) cut(acked uint64) error {
	after := r.disk.Crash(memfs.KeepNone, nil)
	if err := r.db.Close(); err != nil && !errors.Is(err, vfs.ErrIO) {
		return err
	}
	return recoveredTo(after, acked, whole)
}

// recoveredTo opens what a power cut has left. It demands the version acked or a later one,
// and calls judge with it.
func recoveredTo(disk *memfs.FS, acked uint64, judge func(tx stoat.Txn) error) error {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	if err != nil {
		return err
	}
	err = db.View(func(tx stoat.Txn) error {
		if v := tx.ReadVersion(); v < acked {
			return fmt.Errorf("recovered version %d, but %d was acknowledged as durable", v, acked)
		}
		return judge(tx)
	})
	return errors.Join(err, db.Close())
}

// CheckAhead lets n syncs run in the background beside durable commits, and n of them fail.
func CheckAhead(n int) error {
	return testkit.Times(n, func(int) error { return errors.Join(besideAhead(), failedAhead()) })
}

// besideAhead makes a durable commit write while a sync in the background, and that of
// another commit, are about to end. Neither sync covers it.
func besideAhead() error {
	r, err := newAheadRun()
	if err != nil {
		return err
	}
	held := []chan struct{}{make(chan struct{}), make(chan struct{})}
	r.lane.synced = func(_ string, sync func() error) error {
		err := sync()
		if n := r.lane.syncs.Add(1); n <= int64(len(held)) {
			<-held[n-1]
		}
		return err
	}
	if err := r.fill(); err != nil {
		close(held[0])
		close(held[1])
		return errors.Join(err, r.db.Close())
	}
	var acked atomic.Uint64
	var failed testkit.FirstError
	var ended [2]chan struct{}
	for i := range ended {
		written := r.db.Stats().Log.BytesWritten
		ended[i] = make(chan struct{})
		r.sets++
		n := r.sets
		go func() {
			defer close(ended[i])
			version, err := r.setKey(n, stoat.Synced)
			testkit.Raise(&acked, version)
			failed.Set(err)
		}()
		deadline := time.Now().Add(time.Minute)
		for failed.Get() == nil && (r.db.Stats().Log.BytesWritten == written || i == 0 && r.lane.syncs.Load() < 2) {
			if runtime.Gosched(); time.Now().After(deadline) {
				failed.Set(fmt.Errorf("durable commit %d does not come to its sync", i+1))
			}
		}
	}
	close(held[0])
	close(held[1])
	<-ended[0]
	<-ended[1]
	if err := failed.Get(); err != nil {
		return errors.Join(err, r.db.Close())
	}
	return r.cut(acked.Load())
}

// failedAhead makes a sync in the background fail. A later durable commit must not succeed.
func failedAhead() error {
	r, err := newAheadRun()
	if err != nil {
		return err
	}
	r.lane.synced = func(path string, sync func() error) error {
		if r.lane.syncs.Load() == 0 {
			r.fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Path: path, Nth: 1, Sync: vfs.SyncDropped})
		}
		err := sync()
		r.lane.syncs.Add(1)
		return err
	}
	if err := r.fill(); err != nil && !errors.Is(err, vfs.ErrIO) {
		return errors.Join(err, r.db.Close())
	}
	acked, err := r.set(stoat.Synced)
	if err != nil && !errors.Is(err, vfs.ErrIO) {
		return errors.Join(err, r.db.Close())
	}
	return r.cut(acked)
}
