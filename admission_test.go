package stoat

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestWhatIsOwedForWritingIsBoundedAndForgiven(t *testing.T) {
	t.Parallel()
	var a admission
	for range 100 {
		a.owe(int64(time.Hour))
	}
	if owed := a.owed(); owed <= 0 || owed > owedMax {
		t.Errorf("%v are owed, want up to %v", owed, owedMax)
	}
	a.forgive()
	if owed := a.owed(); owed > 0 {
		t.Errorf("%v are owed for what is not behind any more", owed)
	}
}

// A pass over files with little garbage says nothing of what collection can
// free when it has to.
func TestCollectionInIdlenessDoesNotCountAsItsRate(t *testing.T) {
	t.Parallel()
	var a admission
	a.collected(3<<20, 64<<20, time.Now().Add(-time.Second))
	if ns := a.freeNsPerKiB.Load(); ns != 0 {
		t.Errorf("%d ns a KiB", ns)
	}
	a.collected(32<<20, 64<<20, time.Now().Add(-time.Second))
	if a.freeNsPerKiB.Load() == 0 {
		t.Error("a collection that freed half of what it read says nothing")
	}
}

// The flushes of a small memory hang, and a commit that has to wait is cancelled.
func TestACommitThatWaitsForMemoryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	fs := memfs.New()
	fs.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpCreate && op.Category == vfs.CatTable {
			<-release
		}
	})
	var waits atomic.Pointer[context.CancelFunc]
	db, err := Open("/db", &Options{FS: fs, MemtableSize: 256 << 10, Durability: Buffered, Events: func(e Event) {
		if _, ok := e.(StallBegin); ok {
			(*waits.Load())()
		}
	}})
	mustOK(t, err)
	n := 0
	for ; err == nil; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		waits.Store(&cancel)
		err = db.UpdateContext(ctx, func(tx *Txn) error { return tx.Set(fmt.Append(nil, n), make([]byte, 1000)) })
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("commit %d: %v, want %v", n, err, context.Canceled)
	}
	if c := &db.commits; c.leaders != 0 || len(c.queue) != 0 {
		t.Errorf("%d leaders, %d requests in the queue", c.leaders, len(c.queue))
	}

	// Nobody is in the way of the next one, and what was given up is not there.
	nothing := func() {}
	cancel := context.CancelFunc(nothing)
	waits.Store(&cancel)
	close(release)
	mustOK(t, db.Update(func(tx *Txn) error {
		if _, err := tx.Get(fmt.Append(nil, n-1)); err != ErrNotFound {
			return fmt.Errorf("what was given up: %w", err)
		}
		return tx.Set([]byte("next"), nil)
	}))
	mustOK(t, db.Close())
}

func TestAWaitForWhatIsWrittenApartEndsWithTheContextAndChargesNothing(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	a := &db.admission
	a.nsPerKiB.Store(1e6)
	a.owe(int64(owedMax / 2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.admitApart(ctx, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if owed := a.owed(); owed > owedMax/2 {
		t.Errorf("%v are owed, want %v", owed, owedMax/2)
	}
	a.nsPerKiB.Store(0)
	a.forgive()
}

// Flushes fail. Transactions of any size may use as much memory as small ones,
// and then fail with the error of the flush; the first gets in whatever its size.
func TestMemtablesThatCannotBeFlushedStayWithinTheirMemoryWhateverTheTransactions(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, bytes := range []int{1 << 10, 200 << 10, 700 << 10, 2 << 20, 9 << 20} {
		fs := faultfs.New(memfs.New())
		db, err := Open("/db", &Options{FS: fs, MemtableSize: size, Durability: Buffered, LargeValueThreshold: 1 << 30})
		mustOK(t, err)
		fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Forever: true, Err: vfs.ErrNoSpace})
		n := 0
		for ; err == nil; n++ {
			err = db.Update(func(tx *Txn) error { return tx.Set(fmt.Append(nil, n), make([]byte, bytes)) })
		}
		if !errors.Is(err, ErrNoSpace) || n == 1 {
			t.Errorf("commit %d of %d bytes: %v", n, bytes, err)
		}
		if held, most := bytesOf(db.view.Load().tables), int64(max((waitingMax+1)*size, bytes)+size); held > most {
			t.Errorf("%d commits of %d bytes hold %d bytes of memory, want up to %d", n, bytes, held, most)
		}
		fs.Clear()
		mustOK(t, db.Update(func(tx *Txn) error { return tx.Set([]byte("again"), make([]byte, bytes)) }))
		mustOK(t, db.Close())
	}
}

// Two leaders may ask for memory at once, when there is enough for either.
func TestLargeTransactionsThatAreAdmittedTogetherGetInOneByOne(t *testing.T) {
	t.Parallel()
	fs := faultfs.New(memfs.New())
	db, err := Open("/db", &Options{FS: fs, MemtableSize: 1 << 20, Durability: Buffered, LargeValueThreshold: 1 << 30})
	mustOK(t, err)
	fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Forever: true, Err: vfs.ErrNoSpace})
	db.commits.build.Lock()
	done := make(chan error, 2)
	for i := range 2 {
		go func() {
			done <- db.Update(func(tx *Txn) error { return tx.Set(fmt.Append(nil, i), make([]byte, 9<<20)) })
		}()
	}
	for c := &db.commits; ; runtime.Gosched() {
		c.mu.Lock()
		both := c.leaders == 2
		c.mu.Unlock()
		if both {
			break
		}
	}
	db.commits.build.Unlock()
	if first, second := <-done, <-done; !errors.Is(errors.Join(first, second), ErrNoSpace) || first != nil && second != nil {
		t.Errorf("the two ended with %v and %v", first, second)
	}
	// There is room for a small one beside it.
	mustOK(t, db.Update(func(tx *Txn) error { return tx.Set([]byte("small"), nil) }))
	fs.Clear()
	mustOK(t, db.Close())
}
