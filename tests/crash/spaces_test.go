package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	fs *memfs.FS
	o  stoat.Options
	db *stoat.DB

	// Of an encrypted database. The master key with number turning protects it once the
	// rotation under way ends, and until then the one with number master.
	keys            testkit.TurningKeys
	clock           *testkit.Clock
	master, turning atomic.Int64

	mu     sync.Mutex
	past   []modeltest.SpacesState // after each operation
	sample testkit.Sample[spacesCopy]
}

type spacesCopy struct {
	disk *memfs.FS
	done int // operations that were acknowledged
	op   string
	// master and turning are those of the life.
	master, turning int
}

const spacesCopiesMax = 40

// boundary may take a copy of the disk. All boundaries have the same chance.
func (l *spacesLife) boundary(op vfs.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := l.sample.Slot()
	if slot == nil {
		return
	}
	c := spacesCopy{done: len(l.past), op: op.String(), master: int(l.master.Load())}
	c.disk = l.fs.Clone()
	c.turning = int(l.turning.Load())
	*slot = c
}

// turn makes another master key protect the database, or lets the newest data key get old.
func (l *spacesLife) turn(rng *rand.Rand) error {
	l.clock.Ms.Add(rotatedAge.Milliseconds())
	if rng.IntN(2) == 0 {
		return nil
	}
	before := l.turning.Load()
	l.turning.Store(before + 1)
	l.keys.Turn(stoat.StaticKeys(testkit.NumberedKey(int(before+1)), testkit.NumberedKey(int(before))))
	if err := l.db.RotateMasterKey(context.Background()); err != nil {
		return err
	}
	l.master.Store(before + 1)
	return nil
}

// rotatedAge is the age at which a data key is replaced.
const rotatedAge = time.Minute

// lockedOut demands that the master key before a completed rotation opens nothing.
func (l *spacesLife) lockedOut(c spacesCopy, disk *memfs.FS) error {
	if c.master == 0 || c.turning != c.master {
		return nil
	}
	_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, ReadOnly: true, Keys: stoat.StaticKeys(testkit.NumberedKey(c.master - 1))})
	if !errors.Is(err, stoat.ErrKey) {
		return fmt.Errorf("the master key before the rotation: %v, want ErrKey", err)
	}
	return nil
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
	disk := testkit.RandomCut(rng)(c.disk)
	if l.o.Keys != nil {
		err := testkit.NoSentinel(disk, testkit.Dir)
		if err == nil {
			err = l.lockedOut(c, disk)
		}
		if err != nil {
			return err
		}
	}
	o := l.o
	if o.FS = disk; o.Keys != nil {
		o.Keys = stoat.StaticKeys(testkit.NumberedKey(c.turning), testkit.NumberedKey(c.master))
	}
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
	turned := int64(0)
	for life := range uint64((states + spacesCopiesMax - 1) / spacesCopiesMax) {
		rng := rand.New(rand.NewPCG(seed+life, 0x5bace))
		l := &spacesLife{fs: memfs.New()}
		l.sample.Rand, l.sample.Max = rand.New(rand.NewPCG(seed+life, 3)), spacesCopiesMax
		l.fs.SetHook(l.boundary)
		l.clock = testkit.NewClock()
		l.o = stoat.Options{FS: l.fs, MemtableSize: testkit.SmallMemtable, Filters: []stoat.Filter{modeltest.SignFilter{}},
			Clock: l.clock, DataKeyAge: rotatedAge}
		if life%3 == 1 {
			l.keys.Turn(stoat.StaticKeys(testkit.NumberedKey(0)))
			l.o.Keys = &l.keys
		}
		var err error
		l.db, err = stoat.Open(testkit.Dir, &l.o)
		testkit.Must(t, err)
		for range 80 {
			testkit.Must(t, l.step(rng))
			if l.o.Keys != nil && rng.IntN(3) == 0 {
				testkit.Must(t, l.turn(rng))
			}
		}
		turned += l.master.Load()
		testkit.Must(t, l.db.Close())
		l.fs.SetHook(nil)
		for _, c := range l.sample.Kept {
			if err := l.check(c, rng); err != nil {
				t.Fatalf("seed %d, after %d operations, before %s: %v", seed+life, c.done, c.op, err)
			}
		}
	}
	if turned == 0 {
		t.Error("no master key was rotated")
	}
}
