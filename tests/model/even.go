package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// evenLife is the number of transactions of a life with even keys.
const evenLife = 120

// An even is a life of a database whose keys have one length, and are seldom written twice
// or deleted. The keys of many applications are like that. A few keys are written very often,
// as counters are. Iterators have shortcuts for both.
type even struct {
	db     *stoat.DB
	rng    *rand.Rand
	m      *model.Map
	open   []*stoat.Snapshot
	size   int // of values, in bytes
	again  int // one in so many writes is of a key that exists
	values int
}

// RunEven plays a life with even keys.
func RunEven(seed uint64) (err error) {
	l := &even{rng: rand.New(rand.NewPCG(seed, 0xe7e7)), m: model.NewMap()}
	l.size = []int{0, 20, 100, 700}[l.rng.IntN(4)]
	l.again = []int{10, 100, 1000}[l.rng.IntN(3)]
	memtable := int64(testkit.SmallMemtable)
	if l.rng.IntN(2) == 0 {
		memtable *= 16 // it has all versions of a key that is often written
	}
	l.db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: memtable, Durability: stoat.Buffered})
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range l.open {
			s.Close()
		}
		err = errors.Join(err, l.db.Close())
	}()
	for i := range evenLife {
		if err = l.step(); err != nil {
			return fmt.Errorf("life %d with even keys, step %d: %w", seed, i, err)
		}
	}
	return nil
}

func (l *even) step() error {
	if err := l.write(); err != nil {
		return err
	}
	if l.rng.IntN(40) == 0 {
		if err := l.heat(); err != nil {
			return err
		}
	}
	switch l.rng.IntN(20) {
	case 0, 1, 2:
		// The reads that follow find the database in one run of tables.
		if err := l.db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
			return err
		}
		return l.look()
	case 3, 4:
		return l.snapshot()
	case 5:
		return l.look()
	}
	return nil
}

// snapshot keeps the present state.
func (l *even) snapshot() error {
	s, err := l.db.Snapshot(stoat.SnapshotOptions{})
	if err != nil {
		return err
	}
	if l.open = append(l.open, s); len(l.open) > 3 {
		l.open[0].Close()
		l.open = l.open[1:]
	}
	return nil
}

// heat writes one key so often that its versions fill batches, and reads it.
func (l *even) heat() error {
	key, seen := fmt.Sprintf("even-%06d", l.rng.IntN(1_000_000)), l.rng.IntN(100)
	for i := range 100 {
		l.values++
		if err := commitAll(l.db, l.m, []model.Write{{Key: key, Version: model.Version{Value: fmt.Sprint(l.values)}}}); err != nil {
			return err
		}
		if i == seen {
			if err := l.snapshot(); err != nil {
				return err
			}
		}
	}
	return l.look()
}

// write commits some keys.
func (l *even) write() error {
	var writes []model.Write
	used := map[string]bool{}
	known := l.m.Keys()
	for range 1 + l.rng.IntN(40) {
		w := model.Write{Key: fmt.Sprintf("even-%06d", l.rng.IntN(1_000_000))}
		again := len(known) > 0 && l.rng.IntN(l.again) == 0
		if again {
			w.Key = known[l.rng.IntN(len(known))]
		}
		if used[w.Key] {
			continue
		}
		used[w.Key] = true
		l.values++
		if w.Value = fmt.Sprintf("%06d%s", l.values, strings.Repeat(".", l.size)); again && l.rng.IntN(2) == 0 {
			w.Version = model.Version{Deleted: true}
		}
		writes = append(writes, w)
	}
	return commitAll(l.db, l.m, writes)
}

// look reads the present and all snapshots.
func (l *even) look() error {
	if err := l.db.View(l.compare); err != nil {
		return err
	}
	for _, s := range l.open {
		if err := s.View(l.compare); err != nil {
			return err
		}
	}
	return nil
}

// compare reads everything that tx sees, as a whole and between two keys.
func (l *even) compare(tx stoat.Txn) error {
	if err := testkit.Compare(tx, l.m, 0); err != nil {
		return err
	}
	want := l.m.Scan(tx.ReadVersion(), 0)
	if len(want) == 0 {
		return nil
	}
	from := l.rng.IntN(len(want))
	to := from + l.rng.IntN(len(want)-from)
	o := stoat.IterOptions{Lower: []byte(want[from].Key), Upper: []byte(want[to].Key)}
	return testkit.CompareScan(tx, o, want[from:to])
}
