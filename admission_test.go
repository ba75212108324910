package stoat

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The flushes of a small memory hang, and a commit that has to wait is cancelled.
func TestStall_ACommitThatWaitsForMemoryEndsWithItsContext(t *testing.T) {
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
		err = db.UpdateContext(ctx, func(tx Txn) error { return tx.Set(fmt.Append(nil, n), make([]byte, 1000)) })
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("commit %d: %v, want %v", n, err, context.Canceled)
	}
	if groups, waiting := db.engine.Commits.InFlight(); groups != 0 || waiting != 0 {
		t.Errorf("%d leaders, %d requests in the queue", groups, waiting)
	}

	// Nothing is in the way of the next commit, and what was given up is not there.
	nothing := func() {}
	cancel := context.CancelFunc(nothing)
	waits.Store(&cancel)
	close(release)
	mustOK(t, db.Update(func(tx Txn) error {
		if _, err := tx.Get(fmt.Append(nil, n-1)); err != ErrNotFound {
			return fmt.Errorf("what was given up: %w", err)
		}
		return tx.Set([]byte("next"), nil)
	}))
	mustOK(t, db.Close())
}

// memtablesMax is how many memtables' worth of memory commits may fill: two wait to
// be flushed, and one takes the writes.
const memtablesMax = 3

// Flushes fail. Transactions of any size may use as much memory as small ones,
// and then fail with the error of the flush. The first gets in whatever its size.
func TestStall_MemtablesStayWithinTheirMemoryWhenFlushesFail(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, bytes := range []int{1 << 10, 200 << 10, 700 << 10, 2 << 20, 9 << 20} {
		fs := faultfs.New(memfs.New())
		db, err := Open("/db", &Options{FS: fs, MemtableSize: size, Durability: Buffered, LargeValueThreshold: 1 << 30})
		mustOK(t, err)
		fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Forever: true, Err: vfs.ErrNoSpace})
		n := 0
		for ; err == nil; n++ {
			err = db.Update(func(tx Txn) error { return tx.Set(fmt.Append(nil, n), make([]byte, bytes)) })
		}
		if !errors.Is(err, ErrNoSpace) || n == 1 {
			t.Errorf("commit %d of %d bytes: %v", n, bytes, err)
		}
		if held, most := db.engine.Store.MemtableBytes(), int64(max(memtablesMax*size, bytes)+size); held > most {
			t.Errorf("%d commits of %d bytes hold %d bytes of memory, want up to %d", n, bytes, held, most)
		}
		fs.Clear()
		mustOK(t, db.Update(func(tx Txn) error { return tx.Set([]byte("again"), make([]byte, bytes)) }))
		mustOK(t, db.Close())
	}
}

// Two leaders may ask for memory at once, when there is enough for either.
func TestStall_LargeTransactionsAdmittedTogetherGetInOneByOne(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	fs := faultfs.New(disk)
	db, err := Open("/db", &Options{FS: fs, MemtableSize: 1 << 20, Durability: Buffered, LargeValueThreshold: 1 << 30})
	mustOK(t, err)
	fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Forever: true, Err: vfs.ErrNoSpace})
	// No group is built while the log is begun.
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpCreate && op.Category == vfs.CatLog {
			once.Do(func() {
				close(begun)
				<-goOn
			})
		}
	})
	rotated := make(chan error, 1)
	go func() { rotated <- db.engine.Commits.Rotate(false) }()
	<-begun
	done := make(chan error, 2)
	for i := range 2 {
		go func() {
			done <- db.Update(func(tx Txn) error { return tx.Set(fmt.Append(nil, i), make([]byte, 9<<20)) })
		}()
	}
	for groups := 0; groups < 2; time.Sleep(time.Millisecond) {
		groups, _ = db.engine.Commits.InFlight()
	}
	close(goOn)
	mustOK(t, <-rotated)
	if first, second := <-done, <-done; !errors.Is(errors.Join(first, second), ErrNoSpace) || first != nil && second != nil {
		t.Errorf("the two ended with %v and %v", first, second)
	}
	// There is room for a small one beside it.
	mustOK(t, db.Update(func(tx Txn) error { return tx.Set([]byte("small"), nil) }))
	fs.Clear()
	mustOK(t, db.Close())
}
