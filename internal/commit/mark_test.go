package commit

import (
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A DB.Sync returns once the log is marked, and so waits for the leader that builds the next
// group. The commits that went through the log with it are durable before.
func TestMark_OnlyTheSyncOfAGroupWaitsForTheNextGroup(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	if err := disk.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	store := newStore()
	defer store.Abandon()
	c := New(Options{
		Store: store, Space: space.New(space.Options{}), MemtableSize: storeMemtable,
		Executor: new(work.Executor), Activity: new(work.Activity), Flush: func() {},
		Log: log.Options{FS: disk, Dir: "/db", Random: func() uint64 { return 7 }},
	})
	c.Bind(throttle.New(throttle.Options{
		MemtableSize: storeMemtable, Group: work.NewGroup(&work.Executor{}), Report: func(any) {},
		Failed: c.Failed, Flush: func() {}, Fill: func() state.Fill { return state.Fill{} },
	}))
	l, err := log.Create(c.o.Log, log.Recovered{})
	if err != nil {
		t.Fatal(err)
	}
	c.log.Store(l)
	w := c.NewWriteSet()
	if err := w.Pending.Set([]byte("k"), []byte("v"), 1, base.Meta{Kind: base.KindSet}, 0); err != nil {
		t.Fatal(err)
	}
	commit, sync := w.Request(0, true), SyncRequest()
	c.groupSize = 10 // a large group was there before, so one leader is enough
	if lead, err := c.enqueue(sync); !lead || err != nil {
		t.Fatal(lead, err)
	}
	if lead, err := c.enqueue(commit); lead || err != nil {
		t.Fatal(lead, err)
	}
	building, built := make(chan struct{}), make(chan struct{})
	disk.SetHook(func(op vfs.Op) {
		if op.Kind != vfs.OpSyncData {
			return
		}
		disk.SetHook(nil)
		go func() { // as the next leader does
			c.build.Lock()
			defer c.build.Unlock()
			close(building)
			<-built
		}()
		<-building
	})
	ended := make(chan bool, 1)
	go func() { ended <- c.lead(t.Context(), sync) }()
	select {
	case <-commit.ready:
	case <-time.After(time.Minute):
		t.Error("the commit waits for the next group")
	}
	if commit.err != nil || store.Visible() != 1 || len(ended) > 0 {
		t.Errorf("the commit: %v, visible up to %d; %d syncs have ended without a mark", commit.err, store.Visible(), len(ended))
	}
	close(built)
	if !<-ended || sync.err != nil {
		t.Errorf("the sync: %v", sync.err)
	}
	c.FreeWriteSet(w)
	c.Drain()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
