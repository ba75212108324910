package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

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
	last, writes, err := r.incremented(end, padding)
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

// incremented is increment without the note. It returns the last transaction of the update.
func (r *crashRun) incremented(end, padding int) (last stoat.Txn, writes []model.Write, err error) {
	err = r.db.Update(func(tx stoat.Txn) error {
		last, writes = tx, nil
		n, err := counted(tx)
		switch {
		case err != nil:
			return err
		case end == 0:
			return errDecided
		case end == 1:
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

func failedTurns(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 40))
	disk := memfs.New()
	fs := faultfs.New(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
	if err != nil {
		return err
	}
	r := &crashRun{db: db}
	fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatLog, Nth: 5 + rng.Int64N(40), Sync: vfs.SyncDropped})
	err = testkit.Concurrently(8, func(_ int, rng *rand.Rand) error {
		for range 10_000 {
			last, _, err := r.incremented(rng.IntN(4), 20)
			if errors.Is(err, vfs.ErrIO) {
				return nil
			}
			if err != nil {
				return err
			}
			testkit.Raise(&r.durable, max(last.CommitVersion(), last.ReadVersion()))
		}
		return errors.New("no sync has failed")
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
