package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
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
	var last stoat.Txn
	var writes []model.Write
	err := r.db.Update(func(tx stoat.Txn) error {
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
	if err != nil && !errors.Is(err, errDecided) {
		return err
	}
	if writes != nil {
		r.record(last.CommitVersion(), writes)
		r.acknowledged(last.CommitVersion(), stoat.Synced)
	}
	r.acknowledged(last.ReadVersion(), stoat.Synced)
	return nil
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
