package stoat_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/dose"
	"github.com/stoatdb/stoat/internal/isolation"
	"github.com/stoatdb/stoat/internal/vfs"
)

// A storeUnderTest shows a database to the workloads of package isolation.
type storeUnderTest struct {
	db *stoat.DB
	// mixed makes some commits buffered and some asynchronous.
	mixed bool
	turns atomic.Uint64
}

func (s *storeUnderTest) Begin(write bool) (isolation.Tx, error) {
	mode := stoat.ReadOnly
	if write {
		mode = stoat.ReadWrite
	}
	tx, err := s.db.Begin(mode)
	if err != nil {
		return nil, err
	}
	return &txUnderTest{Txn: tx, store: s}, nil
}

type txUnderTest struct {
	*stoat.Txn
	store *storeUnderTest
}

func (t *txUnderTest) Get(key string) (isolation.Item, bool, error) {
	item, err := t.Txn.GetItem([]byte(key))
	if errors.Is(err, stoat.ErrNotFound) {
		return isolation.Item{}, false, nil
	}
	if err != nil {
		return isolation.Item{}, false, err
	}
	value, err := item.Value()
	return isolation.Item{Key: key, Value: string(value), Version: item.Version()}, err == nil, err
}

func (t *txUnderTest) Scan(q isolation.Query) (items []isolation.Item, exhausted bool, err error) {
	o := stoat.IterOptions{Reverse: q.Reverse, KeysOnly: q.KeysOnly}
	if q.Lo != "" {
		o.Lower = []byte(q.Lo)
	}
	if q.Hi != "" {
		o.Upper = []byte(q.Hi)
	}
	it := t.Txn.Iterator(o)
	defer it.Close()
	for q.Limit == 0 || len(items) < q.Limit {
		if !it.Next() {
			return items, true, it.Err()
		}
		items = append(items, isolation.Item{
			Key: string(it.Key()), Value: string(it.Value()), Version: it.Item().Version(),
		})
	}
	return items, false, nil
}

func (t *txUnderTest) Set(key, value string) error { return t.Txn.Set([]byte(key), []byte(value)) }
func (t *txUnderTest) Delete(key string) error     { return t.Txn.Delete([]byte(key)) }

func (t *txUnderTest) Commit() (version uint64, conflict bool, err error) {
	d := stoat.Synced
	if t.store.mixed && t.store.turns.Add(1)%3 == 0 {
		d = stoat.Buffered
	}
	err = t.Txn.Commit(stoat.WithDurability(d))
	if errors.Is(err, stoat.ErrConflict) {
		return 0, true, nil
	}
	return t.Txn.CommitVersion(), false, err
}

// TestIsolation records histories of concurrent transactions and proves each
// strictly serializable. Now and then the power is cut after one, and the
// next goes on from what is left.
func TestIsolation(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	histories := dose.Size(t, dose.Histories, 20, 200)
	dose.Reproduce(t, "isolation")
	var next, conflicted atomic.Int64
	var failed first
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.get() == nil {
				n := int(next.Add(historiesPerDisk)) - historiesPerDisk
				if n >= histories {
					return
				}
				conflicts, err := historiesOf(seed+uint64(n), min(historiesPerDisk, histories-n))
				conflicted.Add(int64(conflicts))
				failed.set(err)
			}
		})
	}
	workers.Wait()
	if err := failed.get(); err != nil {
		t.Fatal(err)
	}
	if conflicted.Load() == 0 {
		t.Error("no transaction met a conflict: the histories prove nothing")
	}
}

// historiesPerDisk is how many histories follow each other on one disk.
const historiesPerDisk = 5

func historiesOf(seed uint64, n int) (conflicts int, err error) {
	rng := rand.New(rand.NewPCG(seed, 0x150))
	opts := stoat.Options{FS: vfs.NewMem()}
	if rng.IntN(4) == 0 {
		opts.MemtableSize = smallMemtable
	}
	db, err := stoat.Open(dbDir, &opts)
	if err != nil {
		return 0, err
	}
	for i := range n {
		store := &storeUnderTest{db: db, mixed: rng.IntN(2) == 0}
		report, err := oneHistory(store, seed+uint64(i))
		conflicts += report.Conflicted
		if err != nil {
			return conflicts, errors.Join(fmt.Errorf("history %d: %w", seed+uint64(i), err), db.Close())
		}
		if rng.IntN(4) != 0 {
			continue
		}
		if db, err = cutAndOpen(db, &opts, rng); err != nil {
			return conflicts, fmt.Errorf("after history %d: %w", seed+uint64(i), err)
		}
	}
	return conflicts, db.Close()
}

func oneHistory(store *storeUnderTest, seed uint64) (isolation.Report, error) {
	base, initial, err := stateOf(store.db)
	if err != nil {
		return isolation.Report{}, err
	}
	h, err := isolation.Run(store, isolation.RandomConfig(seed), base, initial)
	if err != nil {
		return isolation.Report{}, err
	}
	report, err := isolation.Check(h)
	if err == nil && len(report.Spurious) > 0 {
		err = fmt.Errorf("a conflict without a reason: %v", report.Spurious[0])
	}
	return report, err
}

// stateOf reads everything in a database that nobody writes to.
func stateOf(db *stoat.DB) (version uint64, items []isolation.Item, err error) {
	err = db.View(func(tx *stoat.Txn) error {
		version = tx.ReadVersion()
		items, _, err = (&txUnderTest{Txn: tx}).Scan(isolation.Query{})
		return err
	})
	return version, items, err
}

// cutAndOpen cuts the power and opens the database again.
func cutAndOpen(db *stoat.DB, opts *stoat.Options, rng *rand.Rand) (*stoat.DB, error) {
	opts.FS = anyCut(rng)(opts.FS.(*vfs.Mem))
	if err := db.Close(); err != nil {
		return nil, err
	}
	return stoat.Open(dbDir, opts)
}

// TestApplications runs workloads with invariants that only serializable
// transactions keep.
func TestApplications(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	rounds := max(1, dose.Size(t, dose.Histories, 11, 55)/len(isolation.Applications()))
	dose.Reproduce(t, "isolation")
	for i := range isolation.Applications() {
		name := isolation.Applications()[i].Name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conflicts := 0
			for round := range rounds {
				n, err := playOnce(i, seed+uint64(round))
				conflicts += n
				if err != nil {
					t.Fatalf("seed %d: %v", seed+uint64(round), err)
				}
			}
			t.Logf("%d conflicts in %d rounds", conflicts, rounds)
		})
	}
}

func playOnce(application int, seed uint64) (conflicts int, err error) {
	db, err := stoat.Open(dbDir, &stoat.Options{FS: vfs.NewMem()})
	if err != nil {
		return 0, err
	}
	store := &storeUnderTest{db: db, mixed: seed%2 == 0}
	conflicts, err = isolation.Applications()[application].Play(store, 8, 40, seed)
	return conflicts, errors.Join(err, db.Close())
}
