package steps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
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
	db, err := inside.Open("/db", &stoat.Options{FS: fs, MemtableSize: 256 << 10, Durability: stoat.Buffered, Events: func(e stoat.Event) {
		if _, ok := e.(stoat.StallBegin); ok {
			(*waits.Load())()
		}
	}}, work.Executor{})
	testkit.Must(t, err)
	n := 0
	for ; err == nil; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		waits.Store(&cancel)
		err = db.UpdateContext(ctx, func(tx stoat.Txn) error { return tx.Set(fmt.Append(nil, n), make([]byte, 1000)) })
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("commit %d: %v, want %v", n, err, context.Canceled)
	}

	// Nothing is in the way of the next commit, and what was given up is not there.
	nothing := func() {}
	cancel := context.CancelFunc(nothing)
	waits.Store(&cancel)
	close(release)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return tx.Set([]byte("next"), nil)
	}))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if _, err := tx.Get(fmt.Append(nil, n-1)); err != stoat.ErrNotFound {
			return fmt.Errorf("what was given up: %w", err)
		}
		return nil
	}))
	testkit.Must(t, db.Close())
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
		db, err := inside.Open("/db", &stoat.Options{FS: fs, MemtableSize: size, Durability: stoat.Buffered, LargeValueThreshold: 1 << 30}, work.Executor{})
		testkit.Must(t, err)
		fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Forever: true, Err: vfs.ErrNoSpace})
		n := 0
		for ; err == nil; n++ {
			err = db.Update(func(tx stoat.Txn) error { return tx.Set(fmt.Append(nil, n), make([]byte, bytes)) })
		}
		if !errors.Is(err, stoat.ErrNoSpace) || n == 1 {
			t.Errorf("commit %d of %d bytes: %v", n, bytes, err)
		}
		// The last growth of an index may pass the size of a memtable.
		if held, most := db.Engine.Store.MemtableBytes(), int64(max(memtablesMax*size, bytes)+size*9/8); held > most {
			t.Errorf("%d commits of %d bytes hold %d bytes of memory, want up to %d", n, bytes, held, most)
		}
		fs.Clear()
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("again"), make([]byte, bytes)) }))
		testkit.Must(t, db.Close())
	}
}

// Two leaders may ask for memory at once, when there is enough for either. The test runs
// alone, because it looks for leaders among all goroutines.
func TestStall_LargeTransactionsAdmittedTogetherGetInOneByOne(t *testing.T) {
	disk := memfs.New()
	fs := faultfs.New(disk)
	db, err := inside.Open("/db", &stoat.Options{FS: fs, MemtableSize: 1 << 20, Durability: stoat.Buffered, LargeValueThreshold: 1 << 30}, work.Executor{})
	testkit.Must(t, err)
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
	go func() { rotated <- db.Engine.Commits.Rotate(false) }()
	<-begun
	done := make(chan error, 2)
	for i := range 2 {
		go func() {
			done <- db.Update(func(tx stoat.Txn) error { return tx.Set(fmt.Append(nil, i), make([]byte, 9<<20)) })
		}()
	}
	stacks := make([]byte, 1<<20)
	for began := time.Now(); bytes.Count(stacks, []byte("commit.(*Committer).lead(")) < 2; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the two do not lead a group each")
		}
		stacks = stacks[:cap(stacks)]
		stacks = stacks[:runtime.Stack(stacks, true)]
	}
	close(goOn)
	testkit.Must(t, <-rotated)
	if first, second := <-done, <-done; !errors.Is(errors.Join(first, second), stoat.ErrNoSpace) || first != nil && second != nil {
		t.Errorf("the two ended with %v and %v", first, second)
	}
	// There is room for a small one beside it.
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("small"), nil) }))
	fs.Clear()
	testkit.Must(t, db.Close())
}
