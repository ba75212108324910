package stress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
)

// Merges, keyspaces and timestamps under stress. Each has sums or orders that no meeting of
// goroutines may disturb.

const (
	// stressLists is the number of lists that grow by merges, listMax the length in bytes
	// from which a list begins anew.
	stressLists = 4
	listMax     = 4 << 10
	// stressTemps is the number of keyspaces that come and go.
	stressTemps = 3
	// stressTimes is the number of timestamps of pairs, of which early ones are discarded.
	// Those of counters are later.
	stressTimes = 100
	// distant is a time to live that no test waits for.
	distant = 1000 * time.Hour
)

// withFunctions adds the merge functions of the test to options.
func withFunctions(o stoat.Options) stoat.Options {
	o.MergeFunctions = []stoat.MergeFunction{merge.Counter, merge.Append}
	return o
}

// features are the keyspaces of one opening, and what was acknowledged in them.
type features struct {
	tallies, lists, timed *stoat.Keyspace

	merged []atomic.Int64 // to each tally
	moved  []atomic.Int64 // to each counter at a timestamp
}

func (f *features) open(db *stoat.DB) error {
	var errs [3]error
	f.tallies, errs[0] = db.Keyspace("tallies", &stoat.KeyspaceOptions{MergeFunction: merge.Counter.Name()})
	f.lists, errs[1] = db.Keyspace("lists", &stoat.KeyspaceOptions{MergeFunction: merge.Append.Name()})
	f.timed, errs[2] = db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	return errors.Join(errs[:]...)
}

// blind is Update for a function that reads nothing. A conflict is an error.
func (l *stressedDB) blind(rng *rand.Rand, fn func(tx stoat.Txn) error) error {
	err := l.db.Update(fn, stoat.WithDurability(testkit.RandomDurability(rng)))
	if errors.Is(err, stoat.ErrConflict) {
		return errors.New("a transaction that reads nothing has met a conflict")
	}
	return err
}

// tally merges a number into one tally, and takes it from the tally of debts. So the sum of
// all is 0.
func (l *stressedDB) tally(rng *rand.Rand) error {
	i, n := rng.IntN(stressCounters), rng.Int64N(1000)-500
	err := l.blind(rng, func(tx stoat.Txn) error {
		if err := tx.In(l.tallies).Merge(counterKey(i), merge.Add(n)); err != nil {
			return err
		}
		if rng.IntN(4) == 0 {
			if err := tx.In(l.tallies).Renew(counterKey(i), stoat.TTL(distant)); err != nil {
				return err
			}
		}
		return tx.In(l.tallies).Merge([]byte("debts"), merge.Add(-n))
	})
	if err == nil {
		l.merged[i].Add(n)
	}
	return err
}

// scanTallies demands that the sum of all tallies is 0 in each snapshot.
func (l *stressedDB) scanTallies(rng *rand.Rand) error {
	return l.db.View(func(tx stoat.Txn) error {
		sum := int64(0)
		it := tx.In(l.tallies).Iterator(stoat.IterOptions{Reverse: rng.IntN(2) == 0})
		for it.Next() {
			n, err := merge.Count(it.Value())
			if err != nil {
				return err
			}
			sum += n
		}
		if err := it.Close(); err != nil || sum != 0 {
			return fmt.Errorf("the sum of all tallies at %d is %d, want 0: %w", tx.ReadVersion(), sum, err)
		}
		return nil
	})
}

// grow appends the next item of this goroutine to a list. A long list begins anew.
func (l *stressedDB) grow(rng *rand.Rand, g *goroutine) error {
	i := rng.IntN(stressLists)
	key := counterKey(i)
	item := fmt.Appendf(nil, "%d.%d;", g.number, g.items[i])
	err := l.blind(rng, func(tx stoat.Txn) error { return tx.In(l.lists).Merge(key, item) })
	if err != nil {
		return err
	}
	g.items[i]++
	return l.db.Update(func(tx stoat.Txn) error {
		list, err := tx.In(l.lists).Get(key)
		if errors.Is(err, stoat.ErrNotFound) {
			return nil // another goroutine has deleted it
		}
		if err == nil {
			err = inOrder(string(list))
		}
		if err != nil || len(list) < listMax {
			return err
		}
		return tx.In(l.lists).Delete(key)
	})
}

// inOrder demands that the items of each goroutine follow each other without a gap.
func inOrder(list string) error {
	last := map[int]int{}
	for item := range strings.SplitSeq(strings.TrimSuffix(list, ";"), ";") {
		var by, n int
		if _, err := fmt.Sscanf(item, "%d.%d", &by, &n); err != nil {
			return fmt.Errorf("item %q of a list: %w", item, err)
		}
		if before, ok := last[by]; ok && n != before+1 {
			return fmt.Errorf("item %d of goroutine %d comes after %d: %.200q", n, by, before, list)
		}
		last[by] = n
	}
	return nil
}

// come creates a keyspace, writes two equal values to it, or drops it, while others do.
func (l *stressedDB) come(rng *rand.Rand) error {
	name := fmt.Sprint("temp", rng.IntN(stressTemps))
	if rng.IntN(6) == 0 {
		return unlessDropped(l.db.DropKeyspace(name))
	}
	ks, err := l.db.Keyspace(name, &stoat.KeyspaceOptions{NumVersions: 1 + rng.IntN(2)})
	if err != nil {
		return err
	}
	key := testkit.Key(rng.IntN(5))
	value := fmt.Append(nil, rng.Uint64(), strings.Repeat("v", rng.IntN(2000)))
	err = l.db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.In(ks).Set(key, value), tx.In(ks).Set(append(key, "/twin"...), value))
	}, stoat.WithDurability(stoat.Buffered))
	if err != nil {
		return unlessDropped(err)
	}
	return unlessDropped(l.db.View(func(tx stoat.Txn) error {
		a, errA := tx.In(ks).Get(key)
		b, errB := tx.In(ks).Get(append(key, "/twin"...))
		if !bytes.Equal(a, b) || (errA == nil) != (errB == nil) {
			return fmt.Errorf("half a transaction in keyspace %s at %d: %.20q, %v and %.20q, %v", name, tx.ReadVersion(), a, errA, b, errB)
		}
		if errors.Is(errA, stoat.ErrNotFound) { // the keyspace was dropped just now
			return nil
		}
		return errA
	}))
}

// unlessDropped returns err, unless another goroutine has dropped the keyspace.
func unlessDropped(err error) error {
	if errors.Is(err, stoat.ErrNoKeyspace) {
		return nil
	}
	return err
}

// pairAt writes two equal values at a timestamp, and compares two at another one.
func (l *stressedDB) pairAt(rng *rand.Rand) error {
	i, at := rng.IntN(10), 1+rng.Uint64N(stressTimes)
	left, right := fmt.Appendf(nil, "left/%02d", i), fmt.Appendf(nil, "right/%02d", i)
	value := fmt.Append(nil, rng.Uint64(), strings.Repeat("v", rng.IntN(500)))
	err := l.blind(rng, func(tx stoat.Txn) error {
		t := tx.In(l.timed).At(at)
		if rng.IntN(4) == 0 {
			return errors.Join(t.Delete(left), t.Delete(right))
		}
		return errors.Join(t.Set(left, value), t.Set(right, value))
	})
	if err != nil {
		return unlessDiscarded(err)
	}
	if rng.IntN(200) == 0 {
		return l.timed.DiscardBelow(rng.Uint64N(stressTimes))
	}
	return unlessDiscarded(l.db.View(func(tx stoat.Txn) error {
		t := tx.In(l.timed).At(1 + rng.Uint64N(2*stressTimes))
		a, errA := t.Get(left)
		b, errB := t.Get(right)
		if errors.Is(errA, stoat.ErrTimestampDiscarded) || errors.Is(errB, stoat.ErrTimestampDiscarded) {
			return nil
		}
		if !bytes.Equal(a, b) || (errA == nil) != (errB == nil) {
			return fmt.Errorf("half a transaction at timestamp %d of %d: %.20q, %v and %.20q, %v", t.Timestamp(), tx.ReadVersion(), a, errA, b, errB)
		}
		return nil
	}))
}

// unlessDiscarded returns err, unless another goroutine has discarded the timestamp.
func unlessDiscarded(err error) error {
	if errors.Is(err, stoat.ErrTimestampDiscarded) {
		return nil
	}
	return err
}

// addAt adds 1 to a counter at its timestamp, which it reads at a later one or at that one.
func (l *stressedDB) addAt(rng *rand.Rand) error {
	i := rng.IntN(stressCounters)
	at := uint64(10*stressTimes + i%5)
	err := l.db.Update(func(tx stoat.Txn) error {
		n := uint64(0)
		value, err := tx.In(l.timed).At(at + rng.Uint64N(2)).Get(counterKey(i))
		if err == nil {
			n = binary.BigEndian.Uint64(value)
		} else if !errors.Is(err, stoat.ErrNotFound) {
			return err
		}
		return tx.In(l.timed).At(at).Set(counterKey(i), binary.BigEndian.AppendUint64(nil, n+1))
	}, stoat.WithDurability(testkit.RandomDurability(rng)))
	if err == nil {
		l.moved[i].Add(1)
	}
	return err
}

// totals demands that the tallies, and the counters at timestamps, are exactly what was
// acknowledged.
func (l *stressedDB) totals() error {
	if err := l.open(l.db); err != nil {
		return err
	}
	return l.db.View(func(tx stoat.Txn) error {
		for i := range l.merged {
			value, err := tx.In(l.tallies).Get(counterKey(i))
			n, e := merge.Count(value)
			if err != nil && !errors.Is(err, stoat.ErrNotFound) || e != nil || n != l.merged[i].Load() {
				return fmt.Errorf("after reopening, tally %d is %d, want %d: %w, %w", i, n, l.merged[i].Load(), err, e)
			}
			value, err = tx.In(l.timed).At(100 * stressTimes).Get(counterKey(i))
			moved := int64(0)
			if err == nil {
				moved = int64(binary.BigEndian.Uint64(value))
			}
			if want := l.moved[i].Load(); err != nil && !errors.Is(err, stoat.ErrNotFound) || moved != want {
				return fmt.Errorf("after reopening, the counter %d at its timestamp is %x, want %d: %w", i, value, want, err)
			}
		}
		return nil
	})
}
