package stoat

import (
	"context"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/work"
)

// SnapshotOptions tune a snapshot. The zero value of every field means its default.
type SnapshotOptions struct {
	// MaxAge is how long the snapshot can be read. After that, reads return
	// ErrSnapshotExpired, and the space that the snapshot keeps is free once the
	// transactions under way have ended. Default: no limit.
	MaxAge time.Duration
}

// A Snapshot is a state of the database that any goroutine may read, as often as it likes.
// It keeps the versions, the files and the memtables that belong to that state; see Stats.
// The caller must close it.
type Snapshot struct{ s *transaction.Snapshot }

// Snapshot returns a snapshot of everything committed before the call.
func (d *DB) Snapshot(o SnapshotOptions) (*Snapshot, error) {
	if o.MaxAge < 0 {
		return nil, base.Invalid("SnapshotOptions.MaxAge is %v, want 0 or more", o.MaxAge)
	}
	s, err := d.engine.Transactions.Snapshot(o.MaxAge)
	if err != nil {
		return nil, err
	}
	return &Snapshot{s}, nil
}

// View is DB.View at the snapshot. All Views judge expiry by the time when the snapshot
// was made. So all of them find the same.
func (s *Snapshot) View(fn func(tx Txn) error) error {
	return s.ViewContext(context.Background(), fn)
}

// ViewContext is DB.ViewContext at the snapshot.
func (s *Snapshot) ViewContext(ctx context.Context, fn func(tx Txn) error) error {
	tx, err := s.s.Begin(work.Given(ctx))
	if err != nil {
		return err
	}
	defer tx.Discard()
	return guardRead(Txn{tx}, fn)
}

// Begin starts a read-only transaction at the snapshot, as DB.Begin does. The caller must
// end it with Commit or Discard.
func (s *Snapshot) Begin() (Txn, error) { return s.BeginContext(context.Background()) }

// BeginContext is Begin with a context. Once ctx is done, the methods of the transaction
// return the error of ctx.
func (s *Snapshot) BeginContext(ctx context.Context) (Txn, error) {
	tx, err := s.s.Begin(work.Given(ctx))
	return Txn{tx}, err
}

// Version returns the version of the snapshot. It is Txn.ReadVersion of its Views.
func (s *Snapshot) Version() uint64 { return s.s.Version() }

// Close releases the snapshot. Later Views return ErrTxnDone, or ErrSnapshotExpired if it had
// expired before. Transactions under way go on, and keep what they read until they end.
func (s *Snapshot) Close() { s.s.Close() }
