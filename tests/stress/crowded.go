package stress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// crowdedKeys is the number of keys. Their values take more than the memory for decrypted
// pages.
const crowdedKeys = 1500

// A crowd is an encrypted database with little memory, and what it holds. Its decrypted
// pages reach their limit and fall below it again, while goroutines read.
type crowd struct {
	db *inside.DB

	writing sync.Mutex // held from before a commit until its versions are known
	// Guarded by writing.

	versions [crowdedKeys][]uint64 // of each key, ascending
	sizes    map[uint64]int        // by version: the length of its values; 0 deletes
}

// RunCrowded reads with three goroutines beside a writer, compactions, collections and
// rounds of the governor. Each goroutine takes so many steps.
func RunCrowded(seed uint64, steps int) error {
	rng := rand.New(rand.NewPCG(seed, 0xc0d))
	opts := &stoat.Options{FS: memfs.NewVolatile(), Keys: testkit.Keys, MemoryBudget: 1 << 20, MemtableSize: testkit.SmallMemtable,
		Durability: stoat.Buffered, Compression: testkit.Compressions[rng.IntN(3)], NumVersions: 1 + rng.IntN(2),
		ValueThreshold: []int64{64, 512, 4096}[rng.IntN(3)], LargeValueThreshold: 4096}
	db, err := inside.Open(testkit.Dir, opts, work.Executor{})
	if err != nil {
		return err
	}
	c := &crowd{db: db, sizes: map[uint64]int{}}
	err = c.fill(rng)
	if err == nil {
		do := []func(rng *rand.Rand) error{c.write, c.tidy, c.read, c.read, c.read}
		err = testkit.Concurrently(len(do), func(i int, rng *rand.Rand) error {
			return testkit.CatchPanic(func() error { return testkit.Times(steps, func(int) error { return do[i](rng) }) })
		}, seed)
	}
	if err == nil {
		_, err = db.Check(context.Background(), stoat.CheckOptions{})
	}
	return errors.Join(err, db.Close())
}

// fill writes all keys, and demands that reading them takes more memory than there is.
func (c *crowd) fill(rng *rand.Rand) error {
	for from := 0; from < crowdedKeys; from += 50 {
		if err := c.commit(from, from+50, 200+rng.IntN(2000)); err != nil {
			return err
		}
	}
	if err := c.db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
		return err
	}
	_, err := c.db.Engine.Governor.Round(false) // sets the limit
	if err == nil {
		err = c.db.View(func(tx stoat.Txn) error {
			_, err := testkit.ScanAll(tx, stoat.IterOptions{})
			return err
		})
	}
	if err == nil {
		_, err = c.db.Engine.Governor.Round(false)
	}
	if err == nil && c.db.Engine.Governor.GaveBack() == 0 {
		err = errors.New("the decrypted pages are no burden")
	}
	return err
}

// commit gives the keys from and up to to values of a size, or deletes them if it is 0.
func (c *crowd) commit(from, to, size int) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	tx, err := c.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	version := tx.ReadVersion() + 1 // there is no other writer
	for i := from; i < to; i++ {
		if size == 0 {
			err = tx.Delete(testkit.Key(i))
		} else {
			err = tx.Set(testkit.Key(i), []byte(crowdedValue(i, version, size)))
		}
		if err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if tx.CommitVersion() != version {
		return fmt.Errorf("commit %d, want %d", tx.CommitVersion(), version)
	}
	c.sizes[version] = size
	for i := from; i < to; i++ {
		c.versions[i] = append(c.versions[i], version)
	}
	return nil
}

// crowdedValue returns the value of key i at a version, of about size bytes.
func crowdedValue(i int, version uint64, size int) string {
	b := fmt.Appendf(nil, "%d of %d: ", i, version)
	for rng := rand.NewPCG(uint64(i), version); len(b) < size; {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return string(b)
}

// write makes a few commits.
func (c *crowd) write(rng *rand.Rand) error {
	return testkit.Times(4, func(int) error { return c.writeOne(rng) })
}

func (c *crowd) writeOne(rng *rand.Rand) error {
	from, size := rng.IntN(crowdedKeys), 20+rng.IntN(1500)
	if rng.IntN(6) == 0 {
		size = 0
	}
	return c.commit(from, min(crowdedKeys, from+1+rng.IntN(20)), size)
}

// tidy does what happens in the background, and gives memory back.
func (c *crowd) tidy(rng *rand.Rand) error {
	var err error
	switch rng.IntN(8) {
	case 0:
		err = c.db.Compact(context.Background(), stoat.CompactOptions{})
	case 1:
		err = c.db.Collect(context.Background())
	}
	_, e := c.db.Engine.Governor.Round(false)
	return errors.Join(err, e)
}

// An expected is a key with its value at the snapshot of a reader.
type expected struct{ key, value string }

// at returns what the snapshot of a version shows.
func (c *crowd) at(version uint64) (all []expected) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for i, versions := range c.versions {
		n, found := slices.BinarySearch(versions, version)
		if found {
			n++
		}
		if n > 0 && c.sizes[versions[n-1]] > 0 {
			all = append(all, expected{string(testkit.Key(i)), crowdedValue(i, versions[n-1], c.sizes[versions[n-1]])})
		}
	}
	return all
}

// A loan is a value that a transaction lent.
type loan struct {
	value []byte
	want  string
}

// read compares what a transaction reads in several ways.
func (c *crowd) read(rng *rand.Rand) error {
	return c.db.View(func(tx stoat.Txn) error { return c.readIn(tx, rng) })
}

// readIn is read in a transaction. At the end, all that it lent must still be the same.
func (c *crowd) readIn(tx stoat.Txn, rng *rand.Rand) error {
	all := c.at(tx.ReadVersion())
	var loans []loan
	for range 2 {
		if err := c.getMany(tx, all, rng, &loans); err != nil {
			return err
		}
		if err := c.walk(tx, all, rng, &loans); err != nil {
			return err
		}
	}
	for _, l := range loans {
		if string(l.value) != l.want {
			return fmt.Errorf("at %d: a value became %.40q, it was %.40q", tx.ReadVersion(), l.value, l.want)
		}
	}
	return nil
}

func (c *crowd) getMany(tx stoat.Txn, all []expected, rng *rand.Rand, loans *[]loan) error {
	keys := make([][]byte, 1+rng.IntN(100))
	for i := range keys {
		keys[i] = testkit.Key(rng.IntN(crowdedKeys))
	}
	values, err := tx.GetMany(keys, nil)
	if err != nil {
		return fmt.Errorf("GetMany at %d: %w", tx.ReadVersion(), err)
	}
	for i, value := range values {
		n, ok := slices.BinarySearchFunc(all, string(keys[i]), func(e expected, key string) int { return strings.Compare(e.key, key) })
		if ok != (value != nil) || ok && string(value) != all[n].value {
			return fmt.Errorf("GetMany at %d: %s has %.40q, want %v", tx.ReadVersion(), keys[i], value, ok)
		}
		*loans = append(*loans, loan{value, string(value)})
	}
	return nil
}

// walk moves an iterator forth and back from random keys.
func (c *crowd) walk(tx stoat.Txn, all []expected, rng *rand.Rand, loans *[]loan) error {
	o := stoat.IterOptions{Reverse: rng.IntN(2) == 0, Prefetch: rng.IntN(40) - 1, KeysOnly: rng.IntN(5) == 0}
	if o.Reverse {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	it := tx.Iterator(o)
	defer it.Close()
	for range 3 {
		at := rng.IntN(len(all))
		ok := it.Seek([]byte(all[at].key))
		for back := false; ; {
			inside := at >= 0 && at < len(all)
			if err := it.Err(); err != nil || ok != inside {
				return fmt.Errorf("%+v at %d: %v at entry %d of %d: %w", o, tx.ReadVersion(), ok, at, len(all), err)
			}
			if !inside || rng.IntN(300) == 0 {
				break
			}
			value := it.Value()
			if string(it.Key()) != all[at].key || !o.KeysOnly && string(value) != all[at].value {
				return fmt.Errorf("%+v at %d: %q has %.40q, want %.40q of %q: %w", o, tx.ReadVersion(), it.Key(), value, all[at].value, all[at].key, it.Err())
			}
			*loans = append(*loans, loan{value, string(value)})
			if rng.IntN(50) == 0 {
				back = !back
			}
			if rng.IntN(20) == 0 { // as if others had filled the memory, or freed it
				c.db.Engine.Keys.Memory.SetLimit(1 << (40 * rng.IntN(2)))
			}
			if back {
				at, ok = at-1, it.Prev()
			} else {
				at, ok = at+1, it.Next()
			}
		}
	}
	return nil
}
