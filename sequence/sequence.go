// Package sequence gives out ascending numbers that no two callers get, over restarts and
// crashes too.
//
// A Sequence leases a range of numbers from the database, and gives them out from memory.
// A lease costs one durable commit. A crash loses the rest of the lease, which leaves a gap
// of at most Options.Lease numbers. Close returns the rest. A lease is not part of the
// caller's transaction, so a transaction that fails leaves a gap, too.
//
// A database that was restored from a backup repeats the numbers given out since the backup.
package sequence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/mutant"
)

var (
	// ErrClosed says that the sequence is closed.
	ErrClosed = errors.New("sequence: closed")
	// ErrExhausted says that all numbers were given out.
	ErrExhausted = errors.New("sequence: no number is left")
	// ErrEncoding says that the value of the key is not that of a sequence.
	ErrEncoding = errors.New("sequence: the value of the key is not of a sequence")
)

// Options tune a sequence. The zero value of every field means its default.
type Options struct {
	// Lease is how many numbers one commit leases. Default: 1,000.
	Lease uint64
	// First is the first number of a sequence that the database does not have yet.
	// Default: 0.
	First uint64
	// Keyspace has the key of the sequence. Default: the default keyspace.
	Keyspace *stoat.Keyspace
}

const (
	leaseDefault = 1000
	// conflictsMax is the number of conflicts with other leases after which a lease fails.
	conflictsMax = 1000
)

// A Sequence gives out numbers. Any goroutine may use it.
//
// Several Sequences may share a key. Each leases numbers of its own, so the numbers of all
// together do not ascend.
type Sequence struct {
	db  *stoat.DB
	key []byte
	o   Options

	mu sync.Mutex
	// Guarded by mu: the rest of the lease is [next, end).
	next, end uint64
	closed    bool
}

// New returns the sequence with a key. The key belongs to the sequence: if another writer
// sets or deletes it, numbers repeat. New itself neither reads nor writes.
func New(db *stoat.DB, key []byte, o Options) *Sequence {
	if o.Lease == 0 {
		o.Lease = leaseDefault
	}
	return &Sequence{db: db, key: append([]byte(nil), key...), o: o}
}

// Next returns the next number. After an error, the caller may try again.
func (s *Sequence) Next() (uint64, error) { return s.NextContext(context.Background()) }

// NextContext is Next with a context. Once ctx is done, a lease that has not begun to write
// returns the error of ctx. Another caller's lease is awaited without regard to ctx.
func (s *Sequence) NextContext(ctx context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, ErrClosed
	}
	if s.next == s.end {
		if err := s.lease(ctx); err != nil {
			return 0, err
		}
	}
	s.next++
	return s.next - 1, nil
}

// lease leases more numbers. The lease must be on the device before a number of it is given
// out.
func (s *Sequence) lease(ctx context.Context) error {
	var from, to uint64
	err := s.update(ctx, func(tx stoat.Txn) (err error) {
		if from, err = s.stored(tx); err != nil {
			return err
		}
		if from == math.MaxUint64 {
			return ErrExhausted
		}
		to = from + min(s.o.Lease, math.MaxUint64-from)
		return s.store(tx, to)
	})
	if err == nil {
		s.next, s.end = from, to
	}
	return err
}

// Close returns the rest of the lease, and ends the sequence. If another Sequence with the
// key has leased numbers since, the rest is lost.
func (s *Sequence) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.next == s.end {
		return nil
	}
	return s.update(context.Background(), func(tx stoat.Txn) error {
		if end, err := s.stored(tx); err != nil || end != s.end && !mutant.On(mutant.SequenceReturnsOld) {
			return err
		}
		return s.store(tx, s.next)
	})
}

// update runs fn in a durable transaction.
func (s *Sequence) update(ctx context.Context, fn func(tx stoat.Txn) error) error {
	durability := stoat.Synced
	if mutant.On(mutant.SequenceBuffered) {
		durability = stoat.Buffered
	}
	return s.db.UpdateContext(ctx, func(tx stoat.Txn) error { return fn(tx.In(s.o.Keyspace)) },
		stoat.WithDurability(durability), stoat.Retries(conflictsMax))
}

// stored returns the first number that no Sequence has leased.
func (s *Sequence) stored(tx stoat.Txn) (uint64, error) {
	v, err := tx.Get(s.key)
	switch {
	case errors.Is(err, stoat.ErrNotFound):
		return s.o.First, nil
	case err != nil:
		return 0, err
	case len(v) != 8:
		return 0, fmt.Errorf("%w: %d bytes at key %.80q, want 8", ErrEncoding, len(v), s.key)
	}
	return binary.BigEndian.Uint64(v), nil
}

func (s *Sequence) store(tx stoat.Txn, next uint64) error {
	never := stoat.ExpiresAt(time.Time{}) // whatever the DefaultTTL is
	return tx.Set(s.key, binary.BigEndian.AppendUint64(nil, next), never)
}
