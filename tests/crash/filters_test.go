package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A byteFilter decides by the user's byte: 0 keeps a value, 1 drops it, 2 rewrites it.
type byteFilter struct{}

func (byteFilter) Name() string { return "byte" }

func (byteFilter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	switch v.UserMeta() {
	case 1:
		return stoat.FilterDrop, nil
	case 2:
		if old, err := v.Bytes(); err == nil {
			return stoat.FilterRewrite, bytes.ReplaceAll(old, []byte("new"), []byte("bye"))
		}
	}
	return stoat.FilterKeep, nil
}

// filteredKeys is the number of keys of a database with a filter.
const filteredKeys = 300

// filteredValue returns a value of a key. Half of them lie in value files.
func filteredValue(i int, state string) []byte {
	return bytes.Repeat([]byte(state), 3+i%2*300)
}

// checkFiltered demands that a copy of the disk shows the newest value of each key, or what
// the filter made of it. After a compaction of newer versions it shows only the latter.
func checkFiltered(disk *memfs.FS, o stoat.Options) (err error) {
	o.FS = disk
	db, err := stoat.Open(testkit.Dir, &o)
	if err != nil {
		return err
	}
	defer db.Close()
	look := func(settled bool) error {
		return db.View(func(tx stoat.Txn) error {
			for i := range filteredKeys {
				got, err := tx.Get(testkit.Key(i))
				if errors.Is(err, stoat.ErrNotFound) && i%3 == 1 {
					continue // dropped
				}
				plain := bytes.Equal(got, filteredValue(i, "new")) && (!settled || i%3 == 0)
				if err != nil || !plain && (i%3 != 2 || !bytes.Equal(got, filteredValue(i, "bye"))) {
					return fmt.Errorf("settled %v: key %d has %.20q, %v", settled, i, got, err)
				}
			}
			return nil
		})
	}
	if err := look(false); err != nil {
		return err
	}
	if err := writeFiltered(db, "new"); err != nil {
		return err
	}
	if err := db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
		return err
	}
	if err := look(true); err != nil {
		return err
	}
	_, err = db.Check(context.Background(), stoat.CheckOptions{})
	return err
}

// writeFiltered writes all keys.
func writeFiltered(db *stoat.DB, state string) error {
	const together = 30
	return testkit.Times(filteredKeys/together, func(n int) error {
		return db.Update(func(tx stoat.Txn) error {
			for i := n * together; i < (n+1)*together; i++ {
				if err := tx.Set(testkit.Key(i), filteredValue(i, state), stoat.UserMeta(byte(i%3))); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func TestCrash_AFilteredKeyIsNewOrFilteredAndNeverOlder(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, testkit.Raced(40, 15), 300)
	rng := rand.New(rand.NewPCG(seed, 0xf117))
	for tried, life := 0, 0; tried < states; life++ {
		disk := memfs.New()
		o := stoat.Options{FS: disk, MemtableSize: testkit.SmallMemtable, Keys: testkit.KeysIf(life%3 == 1), Filters: []stoat.Filter{byteFilter{}}}
		db, err := stoat.Open(testkit.Dir, &o)
		testkit.Must(t, err)
		// The older versions come to the last level before there is a filter.
		testkit.Must(t, writeFiltered(db, "old"))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Close())
		o.Filter = "byte"
		db, err = stoat.Open(testkit.Dir, &o)
		testkit.Must(t, err)
		testkit.Must(t, writeFiltered(db, "new"))
		type cut struct {
			disk *memfs.FS
			op   string
		}
		var mu sync.Mutex
		var cuts []cut
		seen := 0
		disk.SetHook(func(op vfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			if seen++; seen%16 == life%16 {
				cuts = append(cuts, cut{disk.Clone(), op.String()})
			}
		})
		// Background jobs flush and compact meanwhile.
		testkit.Must(t, testkit.Times(4, func(int) error { return writeFiltered(db, "new") }))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		disk.SetHook(nil)
		cuts = append(cuts, cut{disk.Clone(), "the end"})
		testkit.Must(t, db.Close())
		for range 20 {
			c := cuts[rng.IntN(len(cuts))]
			kind := memfs.CrashKinds()[rng.IntN(len(memfs.CrashKinds()))]
			if err := checkFiltered(c.disk.Crash(kind, rng), o); err != nil {
				t.Fatalf("seed %d, life %d, %v before %s: %v", seed, life, kind, c.op, err)
			}
			tried++
		}
	}
}
