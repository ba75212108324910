package log

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A groupCommitter commits from many goroutines, in groups. Two groups may sync
// at once, as in the database.
type groupCommitter struct {
	w  *Writer
	mu sync.Mutex // the commit mutex

	built int // guarded by mu

	ackMu sync.Mutex
	acked int // number of synced transactions
}

// commit commits n transactions in one group.
func (g *groupCommitter) commit(n int) error {
	g.mu.Lock()
	for range n {
		if err := appendTx(g.w, testPayload(g.built)); err != nil {
			g.mu.Unlock()
			return err
		}
		g.built++
	}
	target := g.built
	err := g.w.Flush()
	g.mu.Unlock()
	if err != nil {
		return err
	}
	if err := g.w.Sync(); err != nil {
		return err
	}
	g.ackMu.Lock()
	defer g.ackMu.Unlock()
	g.acked = max(g.acked, target)
	return nil
}

func (g *groupCommitter) acknowledged() int {
	g.ackMu.Lock()
	defer g.ackMu.Unlock()
	return g.acked
}

func TestCrash_ConcurrentGroupsLoseNothing(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	o := testOptions(newTestDisk(t), seed)
	disk := o.FS.(*memfs.FS)
	o.Go = nil
	w, spans, err := open(o, nil, nil)
	must(t, err)
	g := &groupCommitter{w: w}
	var wg sync.WaitGroup
	for worker := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, worker))
			for range 60 {
				if err := g.commit(1 + rng.IntN(4)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 100))
		kinds := memfs.CrashKinds()
		for range 60 {
			acked := g.acknowledged()
			crashed := o
			crashed.FS = disk.Crash(kinds[rng.IntN(len(kinds))], rng)
			next := 0
			if _, err := recoverAll(crashed, spans, collect(&next)); err != nil || next < acked {
				t.Errorf("%d transactions recovered, want %d: %v", next, acked, err)
				return
			}
		}
	})
	wg.Wait()
	must(t, w.Close())
	next := 0
	_, err = recoverAll(o, spans, collect(&next))
	must(t, err)
	if next != g.built {
		t.Fatalf("%d transactions, want %d", next, g.built)
	}
}

func TestSync_BothLanesReportTheFirstFailure(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	poisoned := 0
	for range 20 {
		disk := newTestDisk(t)
		faults := faultfs.New(disk)
		o := testOptions(faults, seed)
		o.Go = nil
		w, spans, err := open(o, nil, nil)
		must(t, err)
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Nth: 1 + rng.Int64N(20), Sync: vfs.SyncDropped})
		g := &groupCommitter{w: w}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 50 {
					if g.commit(1) != nil {
						break
					}
				}
			})
		}
		wg.Wait()
		// The failing sync may belong to a segment in preparation.
		if w.Err() != nil {
			poisoned++
		}
		acked := g.acknowledged()
		o.FS = disk.Crash(memfs.KeepNone, rng)
		next := 0
		if _, err := recoverAll(o, spans, collect(&next)); err != nil || next < acked {
			t.Fatalf("%d transactions recovered, want %d: %v", next, acked, err)
		}
	}
	if poisoned == 0 {
		t.Fatal("no writer was poisoned")
	}
}

// TestSyncAhead_LeavesLittleToSync writes without a Sync, and calls SyncAhead after
// each group. A power cut then takes no more than a part of a segment.
func TestSyncAhead_LeavesLittleToSync(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.o.Go = func(job func()) { job() }
	d.open()
	for d.w.Stats().Rotations < 4 {
		d.append()
		must(t, d.w.Flush())
		d.w.SyncAhead()
		if n, most := d.w.Unsynced(), d.w.o.SegmentSizeMax/aheadPart; n > most {
			t.Fatalf("%d bytes are unsynced after SyncAhead, want at most %d", n, most)
		}
	}
	d.checkCrash(d.disk.Crash(memfs.CrashKinds()[0], d.rng), "after SyncAhead")
}

// TestSyncAhead_ItsErrorPoisonsTheWriter fails the sync in the background.
func TestSyncAhead_ItsErrorPoisonsTheWriter(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	fs := faultfs.New(d.disk)
	d.o.FS, d.o.Go = fs, func(job func()) { job() }
	d.open()
	for d.w.Unsynced() <= d.w.o.SegmentSizeMax/aheadPart {
		d.append()
		must(t, d.w.Flush())
	}
	fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Path: d.o.path(d.w.Current().File)})
	d.w.SyncAhead()
	if d.w.Err() == nil {
		t.Fatal("the writer goes on after a failed sync")
	}
}
