package log

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fillPending appends until so many full segments wait for their syncs, and one more
// transaction is written behind them.
func (d *workload) fillPending(n int) {
	d.t.Helper()
	for len(d.w.mu.pending) < n {
		d.append()
	}
	d.append()
	must(d.t, d.w.Flush())
	d.flushed = d.built
}

// holdJobs makes background jobs wait until the caller closes the channel.
func (d *workload) holdJobs() (release chan struct{}) {
	release = make(chan struct{})
	d.o.Go = func(job func()) {
		go func() {
			<-release
			job()
		}()
	}
	return release
}

// write appends a transaction, while held jobs prepare no segment.
func (d *workload) write() {
	d.w.prepareAt = never
	p := testPayload(d.built)
	must(d.t, appendTx(d.w, p))
	d.built++
}

func TestRotation_DoesNotWaitForTheDevice(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.runLate()
	d.open()
	d.append()
	d.sync()
	d.fillPending(pendingMax)
	if d.acked != 1 {
		t.Fatalf("%d transactions are acknowledged", d.acked)
	}

	// A process that is killed leaves everything.
	killed := d.disk.Clone()
	n, r, err := d.recovered(killed, d.spans)
	if err != nil || n != d.built || r.Carried() != int64(n-d.acked) {
		t.Fatalf("killed: %d transactions, %d of them carried, want %d and %d: %v", n, r.Carried(), d.built, d.built-1, err)
	}
	// The next opening writes them again, so that a power cut takes none of them.
	o := d.o
	o.FS, o.Go = killed, func(job func()) { job() }
	w, err := Create(o, r)
	must(t, err)
	spans := append(r.Spans[:len(r.Spans):len(r.Spans)], base.LogSpan{First: w.First()})
	if n, _, err := d.recovered(killed.Crash(memfs.KeepNone, d.rng), spans); err != nil || n != d.built {
		t.Fatalf("carried, then a power cut: %d transactions, want %d: %v", n, d.built, err)
	}
	must(t, w.Close())

	// The jobs make everything before the current segment durable.
	d.runJobs()
	n = d.checkCrash(d.disk.Crash(memfs.KeepNone, d.rng), "after the syncs")
	if want := d.starts[d.w.Segment()]; n < want {
		t.Fatalf("%d transactions after the syncs, want %d", n, want)
	}
}

// A power cut may take the end of a full segment and leave what was written behind it.
func TestRecover_FramesBehindAnUnprovenSegmentProveNothing(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.runLate()
	d.open()
	d.append()
	d.sync()
	full := d.w.Current().File
	for len(d.w.mu.pending) < 1 {
		d.append()
	}
	middle := (record.Start + d.w.mu.pending[0].flushed.offset) / 2
	d.append()
	must(t, d.w.Flush())
	d.flushed = d.built

	torn := d.change(full, func(f vfs.File) {
		size, err := f.Size()
		must(t, err)
		_, err = f.WriteAt(make([]byte, size-middle), middle)
		must(t, err)
	})
	n, _, err := d.recovered(torn, d.spans)
	if err != nil || n < d.acked || n >= d.starts[d.w.Segment()] {
		t.Fatalf("a torn segment: %d transactions, want at least %d: %v", n, d.acked, err)
	}

	// Once a frame says that the segment is durable, the same is damage.
	d.runJobs()
	d.append()
	must(t, d.w.Flush())
	torn = d.change(full, func(f vfs.File) {
		_, err := f.WriteAt(make([]byte, 4096), middle&^4095)
		must(t, err)
	})
	if n, _, err := d.recovered(torn, d.spans); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a durable segment lacks a page: %d transactions: %v", n, err)
	}
}

// A commit must not be acknowledged before the segments before it are durable.
func TestSync_WaitsForTheSegmentsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newWorkload(t, 1)
		fs := faultfs.New(d.disk)
		d.o.FS = fs
		release := d.holdJobs()
		d.open()
		d.append()
		must(t, d.w.Flush())
		must(t, d.w.Sync())
		full := d.o.path(d.w.Current().File)
		for d.w.Stats().Rotations == 0 {
			d.write()
		}
		must(t, d.w.Flush())
		fs.Add(faultfs.Rule{Op: vfs.OpSyncData, Path: full})
		synced := make(chan error)
		go func() { synced <- d.w.Sync() }()
		synctest.Wait()
		select {
		case err := <-synced:
			close(release)
			t.Fatalf("the sync of a commit does not wait for the segment before: %v", err)
		default:
		}
		close(release)
		if err := <-synced; !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("a segment before could not be synced, and the sync of a commit says %v", err)
		}
		if err := d.w.Err(); !errors.Is(err, faultfs.ErrInjected) {
			t.Fatalf("the writer goes on: %v", err)
		}
		_ = d.w.Close() // it repeats the error
	})
}

func TestRotation_WaitsWhenManySegmentsArePending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newWorkload(t, 1)
		release := d.holdJobs()
		d.open()
		for d.w.Stats().Rotations < pendingMax {
			d.write()
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for d.w.Stats().Rotations == pendingMax {
				d.write()
			}
		}()
		d.w.mu.Lock()
		if n := len(d.w.mu.pending); n != pendingMax {
			t.Errorf("%d segments are pending, want %d", n, pendingMax)
		}
		d.w.mu.Unlock()
		synctest.Wait()
		select {
		case <-done:
			t.Error("another rotation did not wait")
		default:
		}
		close(release)
		<-done
		must(t, d.w.Close())
		next := 0
		o := d.o
		o.Random = rand.New(rand.NewPCG(1, 1)).Uint64
		if _, err := recoverAll(o, d.spans, collect(&next)); err != nil || next != d.built {
			t.Fatalf("%d transactions, want %d: %v", next, d.built, err)
		}
	})
}

func TestProven_EndsInTheOldestSegmentThatIsNotDurable(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.runLate()
	d.open()
	d.append()
	d.sync()
	first := d.w.Current().Number
	d.fillPending(2)
	if s := d.w.Proven(d.w.First()); s.EndNumber != first || s.End <= record.Start {
		t.Errorf("proven up to %d in segment %d, want the synced part of %d", s.End, s.EndNumber, first)
	}
	if n, _, err := d.recovered(d.disk.Crash(memfs.KeepNone, d.rng), []base.LogSpan{d.w.Proven(d.w.First())}); err != nil || n != 1 {
		t.Errorf("%d transactions are proven, want 1: %v", n, err)
	}
	// A flush may have freed that segment. Then nothing of the rest is durable.
	current := d.w.Current()
	must(t, d.w.Release(current.Number))
	o := d.o
	o.FS = d.disk
	if n, err := Verify(o, []base.LogSpan{d.w.Proven(current)}, func() error { return nil }); err != nil || n != 0 {
		t.Errorf("%d transactions are proven after a release, want 0: %v", n, err)
	}
	d.close()
}

// A job may prepare a segment after a rotation has taken one, and before that is the current
// one.
func TestPrepare_CountsTheSegmentThatARotationHasTaken(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.runLate()
	d.open()
	d.w.prepareAhead(1)
	d.runJobs()
	between := false
	d.disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpWrite && !between && len(d.w.mu.next) == 0 {
			between = true
			d.w.prepareAhead(preparedMax)
			d.runJobs()
		}
	})
	for d.w.Stats().Rotations < 4 {
		d.append()
		must(t, d.w.Flush())
		d.flushed = d.built
	}
	d.disk.SetHook(nil)
	if !between {
		t.Fatal("no job ran within a rotation")
	}
	d.close()
	if n, _, err := d.recovered(d.disk, d.spans); err != nil || n != d.built {
		t.Fatalf("%d transactions, want %d: %v", n, d.built, err)
	}
}

// A full disk keeps Open from writing the unproven end of the log again. What leads to it must
// then become durable with it.
func TestSyncTail_SyncsTheFrameThatNamesTheSegmentOfTheTail(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.runLate()
	d.open()
	for len(d.w.mu.pending) == 0 {
		if d.append(); len(d.w.mu.pending) == 0 {
			d.sync()
		}
	}
	must(t, d.w.Flush())
	killed := d.disk.Clone()
	n, r, err := d.recovered(killed, d.spans)
	if err != nil || n != d.built || len(r.carry) != 1 || r.carry[0].ref != d.w.Current() {
		t.Fatalf("%d transactions, want %d, and only the segment behind the full one is carried: %+v: %v", n, d.built, r.carry, err)
	}
	o := d.o
	o.FS = killed
	must(t, SyncTail(o, r))
	if n, _, err := d.recovered(killed.Crash(memfs.KeepNone, d.rng), d.spans); err != nil || n != d.built {
		t.Fatalf("%d transactions after SyncTail and a power cut, want %d: %v", n, d.built, err)
	}
}

func TestSyncAhead_TriesAPreparationThatFailedOnlyOnce(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	fs := faultfs.New(d.disk)
	d.o.FS = fs
	d.open()
	for d.w.mu.seg.size < d.o.SegmentSizeMax {
		d.append()
		must(t, d.w.Flush())
	}
	for _, seg := range d.w.mu.next {
		d.w.discard(seg)
	}
	d.w.mu.next, d.w.mu.free = nil, nil
	tries := 0
	d.w.o.Go = func(job func()) {
		if d.w.mu.preparing {
			tries++
		}
		job()
	}
	fs.Add(faultfs.Rule{Op: vfs.OpCreate, Err: vfs.ErrNoSpace, Forever: true})
	rotations := d.w.Stats().Rotations
	calls := 0
	for ; d.w.b.Offset()+8000 < d.w.limit; calls++ {
		d.append()
		must(t, d.w.Flush())
		d.w.SyncAhead()
	}
	// Reserve tries once more, when half of the segment is full.
	if calls < 10 || d.w.Stats().Rotations != rotations || tries == 0 || tries > 2 {
		t.Errorf("%d preparations in %d calls within one segment, want one or two", tries, calls)
	}
	fs.Clear()
	for d.w.Stats().Rotations == rotations {
		d.append()
	}
	tries = 0
	for d.w.Unsynced() <= d.o.SegmentSizeMax/preparePart {
		d.append()
		must(t, d.w.Flush())
	}
	if d.w.SyncAhead(); len(d.w.mu.next) != preparedMax {
		t.Errorf("after a rotation, %d segments are prepared in %d tries, want %d", len(d.w.mu.next), tries, preparedMax)
	}
	d.close()
}

// Segments of large transactions are limited by their bytes.
func TestRotation_WaitsWhenLargeSegmentsArePending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newWorkload(t, 1)
		release := d.holdJobs()
		d.open()
		large := func() {
			d.w.prepareAt = never
			must(t, appendTx(d.w, make([]byte, 2*d.o.SegmentSizeMax)))
			must(t, d.w.Flush())
		}
		large()
		large()
		d.w.mu.Lock()
		if n := len(d.w.mu.pending); n != 2 {
			t.Errorf("%d segments are pending, want the first one and one large one", n)
		}
		d.w.mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			large()
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a third large segment did not wait")
		default:
		}
		close(release)
		<-done
		must(t, d.w.Close())
	})
}
