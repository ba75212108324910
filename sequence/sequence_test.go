package sequence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/sequence"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func next(t *testing.T, s *sequence.Sequence, want uint64) {
	t.Helper()
	if n, err := s.Next(); n != want || err != nil {
		t.Errorf("Next: %d, %v, want %d", n, err, want)
	}
}

func TestSequence_GoesOnWithoutGapAfterClose(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	want := uint64(7)
	for range 4 {
		db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.DefaultTTL = time.Millisecond })
		s := sequence.New(db, []byte("ids"), sequence.Options{Lease: 10, First: 7})
		for range 13 {
			next(t, s, want)
			want++
		}
		testkit.Must(t, s.Close())
		testkit.Must(t, s.Close())
		_, err := s.Next()
		testkit.WantError(t, "Next after Close", err, sequence.ErrClosed)
		testkit.Must(t, db.Close())
		time.Sleep(2 * time.Millisecond) // a default time to live would end
	}
}

func TestSequence_AContextEndsALeaseAndNoNumberIsLost(t *testing.T) {
	t.Parallel()
	s := sequence.New(testkit.OpenMem(t), []byte("ids"), sequence.Options{Lease: 1})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.NextContext(ctx)
	testkit.WantError(t, "NextContext", err, context.Canceled)
	next(t, s, 0)
}

// Goroutines share two Sequences of one key.
func TestSequence_GivesNoNumberTwice(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	var mu sync.Mutex
	given := map[uint64]bool{}
	var all sync.WaitGroup
	for range 2 {
		s := sequence.New(db, []byte("ids"), sequence.Options{Lease: 3})
		for range 4 {
			all.Go(func() {
				for range 100 {
					n, err := s.Next()
					mu.Lock()
					if err != nil || given[n] {
						t.Errorf("got %d a second time, or %v", n, err)
					}
					given[n] = true
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for n := range given {
		if n >= 800+2*3 {
			t.Errorf("%d leaves a gap above two leases", n)
		}
	}
}

// Power cuts at random boundaries lose at most a lease, and repeat nothing.
func TestSequence_RepeatsNothingAfterPowerCuts(t *testing.T) {
	t.Parallel()
	const lease = 4
	rng := rand.New(rand.NewPCG(1, 2))
	fs, given, gaps := memfs.New(), map[uint64]bool{}, 0
	last := uint64(0)
	for range 60 {
		disk := fs
		calls := 20 + rng.IntN(150)
		stop := errors.New("stop")
		var cut *memfs.FS
		var mu sync.Mutex
		disk.SetHook(func(vfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			if calls--; calls == 0 {
				cut = disk.Clone()
			}
		})
		took := func() bool { mu.Lock(); defer mu.Unlock(); return cut != nil }
		db := testkit.OpenOn(t, disk, nil)
		s := sequence.New(db, []byte("ids"), sequence.Options{Lease: lease})
		for range 1000 {
			n, err := s.Next()
			testkit.Must(t, err)
			if took() {
				break // this number may be of a lease after the cut
			}
			if given[n] {
				t.Fatalf("%d was given twice", n)
			}
			given[n] = true
			if len(given) > 1 && n != last+1 {
				if gaps++; n < last || n > last+1+lease {
					t.Fatalf("%d follows %d", n, last)
				}
			}
			last = n
		}
		disk.SetHook(nil)
		testkit.Must(t, db.Close())
		if !took() {
			t.Fatal(stop)
		}
		fs = testkit.RandomCut(rng)(cut)
	}
	if len(given) < 200 || gaps == 0 {
		t.Errorf("%d numbers with %d gaps: the test cuts too early or never", len(given), gaps)
	}
}

func TestSequence_EndsAtTheGreatestNumber(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	s := sequence.New(db, []byte("ids"), sequence.Options{First: math.MaxUint64 - 2})
	next(t, s, math.MaxUint64-2)
	next(t, s, math.MaxUint64-1)
	_, err := s.Next()
	testkit.WantError(t, "Next", err, sequence.ErrExhausted)
	testkit.Must(t, s.Close())
}

func TestSequence_ReturnsErrorsOfItsKeyAndItsDatabase(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("text"), []byte("text")) }))
	_, err := sequence.New(db, []byte("text"), sequence.Options{}).Next()
	testkit.WantError(t, "a text", err, sequence.ErrEncoding)
	_, err = sequence.New(db, nil, sequence.Options{}).Next()
	testkit.WantError(t, "no key", err, stoat.ErrEmptyKey)
	ks, err := db.Keyspace("ids", nil)
	testkit.Must(t, err)
	s := sequence.New(db, []byte("k"), sequence.Options{Keyspace: ks})
	next(t, s, 0)
	testkit.Must(t, db.DropKeyspace("ids"))
	testkit.WantError(t, "Close", s.Close(), stoat.ErrNoKeyspace)
}

func Example() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	orders := sequence.New(db, []byte("next order"), sequence.Options{First: 1})
	for range 3 {
		n, err := orders.Next()
		if err != nil {
			panic(err)
		}
		fmt.Println("order", n)
	}
	if err := orders.Close(); err != nil {
		panic(err)
	}
	// Output:
	// order 1
	// order 2
	// order 3
}
