package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A spacesLife runs operations on keyspaces, all of them durable, and takes copies of
// the disk. A copy must show the state before or after the operation under way.
type spacesLife struct {
	fs  *memfs.FS
	o   stoat.Options
	db  *stoat.DB
	rng *rand.Rand

	mu     sync.Mutex
	seen   int
	past   []modeltest.SpacesState // after each operation
	copies []spacesCopy
}

type spacesCopy struct {
	disk *memfs.FS
	done int // operations that were acknowledged
	op   string
}

const spacesCopiesMax = 40

// boundary may take a copy of the disk. All boundaries have the same chance.
func (l *spacesLife) boundary(op vfs.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen++
	slot := len(l.copies)
	if slot < spacesCopiesMax {
		l.copies = append(l.copies, spacesCopy{})
	} else if slot = l.rng.IntN(l.seen); slot >= spacesCopiesMax {
		return
	}
	l.copies[slot] = spacesCopy{l.fs.Clone(), len(l.past), op.String()}
}

// step draws an operation and runs it.
func (l *spacesLife) step(rng *rand.Rand) error {
	now := modeltest.SpacesState{"": {}}
	if len(l.past) > 0 {
		now = l.past[len(l.past)-1]
	}
	next, op := now.Step(rng)
	if err := op(l.db); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past = append(l.past, next)
	return nil
}

// check crashes a copy and demands one of the two states. Later operations must work.
func (l *spacesLife) check(c spacesCopy, rng *rand.Rand) error {
	kinds := memfs.CrashKinds()
	disk := c.disk.Crash(kinds[rng.IntN(len(kinds))], rng)
	if l.o.Keys != nil {
		if err := testkit.NoSentinel(disk, testkit.Dir); err != nil {
			return err
		}
	}
	o := l.o
	o.FS = disk
	db, err := stoat.Open(testkit.Dir, &o)
	if err != nil {
		return err
	}
	defer db.Close()
	got, err := modeltest.ReadSpaces(db)
	if err != nil {
		return err
	}
	before, after := modeltest.SpacesState{"": {}}, l.past[min(c.done, len(l.past)-1)]
	if c.done > 0 {
		before = l.past[c.done-1]
	}
	if !got.Equal(before) && !got.Equal(after) {
		return fmt.Errorf("the keyspaces are %.300q, want %.300q or %.300q", fmt.Sprint(got), fmt.Sprint(before), fmt.Sprint(after))
	}
	ks, err := db.Keyspace("anew", nil)
	if err != nil {
		return err
	}
	if err := db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("k"), []byte("v")) }); err != nil {
		return err
	}
	if err := db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
		return err
	}
	got["anew"] = map[string]string{"k": "v"}
	if later, err := modeltest.ReadSpaces(db); err != nil || !got.Equal(later) {
		return fmt.Errorf("after a compaction the keyspaces are %.300q, %v", fmt.Sprint(later), err)
	}
	_, err = db.Check(context.Background(), stoat.CheckOptions{})
	return err
}

func TestCrash_KeyspacesAreWholeOrAbsent(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 80, 1200)
	for life := range uint64((states + spacesCopiesMax - 1) / spacesCopiesMax) {
		rng := rand.New(rand.NewPCG(seed+life, 0x5bace))
		l := &spacesLife{fs: memfs.New(), rng: rand.New(rand.NewPCG(seed+life, 3))}
		l.fs.SetHook(l.boundary)
		l.o = stoat.Options{FS: l.fs, MemtableSize: testkit.SmallMemtable, Keys: testkit.KeysIf(life%3 == 1),
			Filters: []stoat.Filter{modeltest.SignFilter{}}}
		var err error
		l.db, err = stoat.Open(testkit.Dir, &l.o)
		testkit.Must(t, err)
		for range 80 {
			testkit.Must(t, l.step(rng))
		}
		testkit.Must(t, l.db.Close())
		l.fs.SetHook(nil)
		for _, c := range l.copies {
			if err := l.check(c, rng); err != nil {
				t.Fatalf("seed %d, after %d operations, before %s: %v", seed+life, c.done, c.op, err)
			}
		}
	}
}
