// Package inside opens databases whose engine a test can reach, so that the test can run
// each background job itself.
package inside

import (
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/door"
	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/work"
)

// A DB is an open database with its engine.
type DB struct {
	*stoat.DB
	Engine *engine.Engine

	wakes *wakes
}

// wakes are the workers that were woken.
type wakes struct {
	mu    sync.Mutex
	woken map[*work.Worker]bool
}

func (w *wakes) note(worker *work.Worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken[worker] = true
}

// Open is stoat.Open with an executor of background jobs.
func Open(dir string, opts *stoat.Options, exec work.Executor) (*DB, error) {
	w := &wakes{woken: map[*work.Worker]bool{}}
	exec.Woken = w.note
	db, inner, err := door.Open(dir, opts, exec)
	if err != nil {
		return nil, err
	}
	return &DB{db.(*stoat.DB), inner.(*engine.Engine), w}, nil
}

// Woken reports whether a worker was woken since the last call with that worker.
func (db *DB) Woken(worker *work.Worker) bool {
	db.wakes.mu.Lock()
	defer db.wakes.mu.Unlock()
	woken := db.wakes.woken[worker]
	delete(db.wakes.woken, worker)
	return woken
}

// Txn returns what a transaction of package stoat wraps.
func Txn(tx stoat.Txn) transaction.Txn { return door.Inner(tx).(transaction.Txn) }

// Outer returns the transaction of package stoat that wraps tx.
func Outer(tx transaction.Txn) stoat.Txn { return door.Outer(tx).(stoat.Txn) }
