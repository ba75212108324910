package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RunIngests makes n ingests, each into a new database. A call of some fails. Such an ingest
// leaves nothing, and every other one leaves all entries. It returns how many have failed.
func RunIngests(seed uint64, n int) (failed int, err error) {
	for i := range n {
		rng := rand.New(rand.NewPCG(seed+uint64(i), 42))
		fired, err := ingestOnce(rng)
		if err != nil {
			return failed, fmt.Errorf("ingest %d: %w", seed+uint64(i), err)
		}
		if fired {
			failed++
		}
	}
	return failed, nil
}

// ingested returns the length of value number i of an ingest.
func ingested(rng *rand.Rand) (length func(i int) int, n int) {
	most := []int{40, 500, 70 << 10}[rng.IntN(3)]
	salt := rng.Uint64()
	return func(i int) int {
		return rand.New(rand.NewPCG(salt, uint64(i))).IntN(most)
	}, 1 + rng.IntN(4<<20/most)%20_000
}

// fillValue fills b with value number i.
func fillValue(b []byte, i int) {
	for j := range b {
		b[j] = byte(i*7 + j)
	}
}

func ingestOnce(rng *rand.Rand) (fired bool, err error) {
	fs := faultfs.New(memfs.New())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, MemtableSize: testkit.SmallMemtable})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	length, n := ingested(rng)
	rule := faultfs.Rule{Op: []vfs.OpKind{vfs.OpWrite, vfs.OpCreate}[rng.IntN(2)], Category: []vfs.Category{vfs.CatTable, vfs.CatValue}[rng.IntN(2)],
		Nth: 1 + rng.Int64N(6), Err: vfs.ErrNoSpace, Partial: rng.IntN(3) * 100}
	if rng.IntN(3) == 0 {
		rule.Path = "matches nothing"
	}
	fault := fs.Add(rule)
	// The caller reuses its memory.
	key, value := make([]byte, 0, 100), make([]byte, 70<<10)
	entries := func(yield func(stoat.Entry, error) bool) {
		for i := range n {
			key = fmt.Appendf(key[:0], "%08d", i)
			v := value[:length(i)]
			fillValue(v, i)
			if !yield(stoat.Entry{Key: key, Value: v}, nil) {
				return
			}
		}
	}
	_, errIngest := db.IngestEntries(context.Background(), entries, stoat.IngestOptions{})
	fired = fault.Fired() > 0
	switch {
	case errIngest != nil && !fired:
		return fired, errIngest
	case errIngest != nil && !errors.Is(errIngest, stoat.ErrNoSpace):
		return fired, fmt.Errorf("the error does not lead to its cause: %w", errIngest)
	case errIngest != nil:
		n = 0
	}
	return fired, compareIngested(db, n, length)
}

// compareIngested demands that a database has n entries.
func compareIngested(db *stoat.DB, n int, length func(i int) int) error {
	return db.View(func(tx stoat.Txn) error {
		i, want := 0, make([]byte, 70<<10)
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		for ; it.Next(); i++ {
			value, err := it.Item().Value()
			if err != nil {
				return err
			}
			w := want[:length(i)]
			fillValue(w, i)
			if string(it.Key()) != fmt.Sprintf("%08d", i) || string(value) != string(w) {
				return fmt.Errorf("entry %d is %q with %d bytes, want %d", i, it.Key(), len(value), len(w))
			}
		}
		if i != n && it.Err() == nil {
			return fmt.Errorf("%d entries, want %d", i, n)
		}
		return it.Err()
	})
}
