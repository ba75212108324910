package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// turnWorkloads run updates that want the same key.
var turnWorkloads = []workload{
	{"updates that take turns", testkit.LargeMemtable, func(r *crashRun) error { return updatesInTurns(r, 20) }},
	{"updates that take turns and fill memtables", testkit.SmallMemtable, func(r *crashRun) error { return updatesInTurns(r, 3000) }},
}

// errDecided ends an update that only reads.
var errDecided = errors.New("decided by what it read")

// updatesInTurns increments one counter from many goroutines, in durable updates that are
// run again after conflicts. Each begins before the one before it is durable. Some updates
// only read. What they return has to be durable, and so is what a reader sees.
func updatesInTurns(r *crashRun, padding int) error {
	return besideReader(r, 6, func(rng *rand.Rand) error {
		return testkit.Times(15, func(int) error { return r.increment(rng.IntN(4), padding) })
	})
}

// increment adds 1 to the counter in an update, and notes it. end 0 ends the update with an
// error instead, and end 1 without writes.
func (r *crashRun) increment(end, padding int) error {
	last, writes, err := r.incremented(end, padding, func(int) {})
	if err != nil {
		return err
	}
	if writes != nil {
		r.record(last.CommitVersion(), writes)
		r.acknowledged(last.CommitVersion(), stoat.Synced)
	}
	r.acknowledged(last.ReadVersion(), stoat.Synced)
	return nil
}

// incremented is increment without the note. It calls read with the counter that it has
// read, and returns the last transaction of the update.
func (r *crashRun) incremented(end, padding int, read func(counter int)) (last stoat.Txn, writes []model.Write, err error) {
	err = r.db.Update(func(tx stoat.Txn) error {
		last, writes = tx, nil
		n, err := counted(tx)
		if err != nil {
			return err
		}
		read(n)
		switch end {
		case 0:
			return errDecided
		case 1:
			return nil
		}
		runtime.Gosched() // so that updates overlap
		writes = []model.Write{testkit.SetKey(0, fmt.Sprintf("%d %s", n+1, testkit.Filled(padding)))}
		return testkit.PutAll(tx, writes)
	}, stoat.Retries(1<<30), stoat.WithDurability(stoat.Synced))
	if errors.Is(err, errDecided) {
		err = nil
	}
	return last, writes, err
}

// counted returns the value of the counter.
func counted(tx stoat.Txn) (n int, err error) {
	v, err := tx.Get([]byte(testkit.SetKey(0, "").Key))
	if errors.Is(err, stoat.ErrNotFound) {
		return 0, nil
	}
	if err == nil {
		_, err = fmt.Sscan(string(v), &n)
	}
	return n, err
}

// CheckFailedTurns lets updates take turns n times until a sync of the log fails. What they
// have read and returned must be there after a power cut.
func CheckFailedTurns(seed uint64, n int) error {
	return testkit.Times(n, func(i int) error { return failedTurns(seed + uint64(i)) })
}

// failedTurns makes a sync fail after an update has read the writes that it is to make durable.
func failedTurns(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 40))
	disk := memfs.New()
	fs := faultfs.New(disk)
	lane := &laneFS{FS: fs, synced: func(_ string, sync func() error) error { return sync() }}
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: lane})
	if err != nil {
		return err
	}
	r := &crashRun{db: db}
	var saw atomic.Uint64 // the newest version that an update which only reads has read
	var failed atomic.Bool
	first := 5 + rng.Int64N(40)
	lane.synced = func(path string, sync func() error) error {
		n := lane.syncs.Add(1)
		if n < first || failed.Load() || !sawAhead(db, &saw) && n < first+1000 {
			return sync()
		}
		fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Path: path, Nth: 1, Sync: vfs.SyncDropped})
		defer failed.Store(true)
		return sync()
	}
	err = testkit.Concurrently(8, func(worker int, rng *rand.Rand) error {
		for !failed.Load() {
			end := rng.IntN(4)
			if worker == 0 {
				end %= 2
			}
			last, _, err := r.incremented(end, 20, func(version int) {
				if end < 2 {
					testkit.Raise(&saw, uint64(version))
				}
			})
			if errors.Is(err, vfs.ErrIO) {
				return nil
			}
			if err != nil {
				return err
			}
			testkit.Raise(&r.durable, max(last.CommitVersion(), last.ReadVersion()))
		}
		return nil
	}, seed)
	after := disk.Crash(memfs.KeepNone, rng)
	if errClose := db.Close(); errClose != nil && !errors.Is(errClose, vfs.ErrIO) {
		err = errors.Join(err, errClose)
	}
	if err != nil {
		return err
	}
	return recoveredTo(after, r.durable.Load(), func(tx stoat.Txn) error {
		n, err := counted(tx)
		if v := tx.ReadVersion(); err == nil && uint64(n) != v {
			err = fmt.Errorf("the counter is %d at version %d", n, v)
		}
		return err
	})
}

// sawAhead waits until an update has seen a version that is not visible yet. It gives up
// after a while: the updates that only read may all wait for the sync that asks.
func sawAhead(db *stoat.DB, saw *atomic.Uint64) bool {
	for range 2000 {
		version := saw.Load() // before the visible version, which may rise meanwhile
		if visible, _ := testkit.VersionOf(db); version > visible {
			return true
		}
		runtime.Gosched()
	}
	return false
}
