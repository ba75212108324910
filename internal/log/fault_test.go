package log

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A faultRun writes a log while one file system call fails.
type faultRun struct {
	t      *testing.T
	what   string
	disk   *memfs.FS
	faults *faultfs.FS
	o      Options
	w      *Writer

	spans []base.LogSpan
	// Transactions from first on are in the log; see workload.
	first, acked, built int
	starts              map[uint64]int
}

func newFaultRun(t *testing.T, what string, rule faultfs.Rule) *faultRun {
	r := &faultRun{t: t, what: what, disk: newTestDisk(t)}
	r.faults = faultfs.New(r.disk)
	r.faults.Add(rule)
	r.o = testOptions(r.faults, 1)
	return r
}

// open opens the log, and opens it again if the fault hits: an error of Recover
// or Create changes nothing.
func (r *faultRun) open() {
	r.t.Helper()
	for range 2 {
		next := r.first
		rec, err := recoverAll(r.o, r.spans, collect(&next))
		if err != nil {
			r.mustBeInjected("Recover", err)
			continue
		}
		if next < r.acked || next > r.built {
			r.t.Fatalf("%s: %d transactions recovered, want %d to %d", r.what, next, r.acked, r.built)
		}
		w, err := Create(r.o, rec)
		if err != nil {
			r.mustBeInjected("Create", err)
			if w, err = Create(r.o, rec); err != nil {
				r.t.Fatalf("%s: second Create: %v", r.what, err)
			}
		}
		r.w, r.acked, r.built = w, next, next
		r.starts = map[uint64]int{}
		r.spans = append(rec.Spans[:len(rec.Spans):len(rec.Spans)], base.LogSpan{First: w.First()})
		return
	}
	r.t.Fatalf("%s: the log does not open", r.what)
}

// mustBeInjected fails the test for an error that no rule made, except for
// corruption that a short read feigned.
func (r *faultRun) mustBeInjected(call string, err error) {
	r.t.Helper()
	failed, _ := r.faults.Failed()
	injected := errors.Is(err, faultfs.ErrInjected) || errors.Is(err, io.EOF) || errors.Is(err, base.ErrCorrupt)
	if failed == 0 || !injected {
		r.t.Fatalf("%s: %s: %v", r.what, call, err)
	}
}

// append writes one transaction and syncs. It reports false when the writer
// is poisoned.
func (r *faultRun) append() bool {
	r.t.Helper()
	p := testPayload(r.built)
	segment := r.w.Segment()
	if err := r.w.Reserve(int64(len(p))); err != nil {
		r.mustBeInjected("Reserve", err)
		if r.w.Err() != nil {
			return false
		}
		if err := r.w.Reserve(int64(len(p))); err != nil {
			r.t.Fatalf("%s: second Reserve of a healthy writer: %v", r.what, err)
		}
	}
	if now := r.w.Segment(); now != segment {
		r.starts[now] = r.built
	}
	r.w.Begin()
	r.w.Write(p)
	r.w.End()
	r.built++
	err := r.w.Flush()
	if err == nil {
		err = r.w.Sync()
	}
	if err == nil {
		r.acked = r.built
		return true
	}
	r.mustBeInjected("commit", err)
	if r.w.Err() == nil {
		r.t.Fatalf("%s: a failed commit does not poison", r.what)
	}
	return false
}

// mark marks the log. A failed mark loses nothing.
func (r *faultRun) mark() {
	r.t.Helper()
	if err := r.w.Mark(); err != nil {
		r.mustBeInjected("Mark", err)
	}
	if err := r.w.Err(); err != nil {
		r.t.Fatalf("%s: a mark poisons: %v", r.what, err)
	}
}

// checkPoisoned checks that a poisoned writer keeps returning its first error.
func (r *faultRun) checkPoisoned() {
	r.t.Helper()
	first := r.w.Err()
	for name, err := range map[string]error{
		"Reserve": r.w.Reserve(1), "Flush": r.w.Flush(), "Sync": r.w.Sync(),
		"Shrink": r.w.Shrink(), "Mark": r.w.Mark(), "Close": r.w.Close(),
	} {
		if !errors.Is(err, first) {
			r.t.Fatalf("%s: %s after %v: %v", r.what, name, first, err)
		}
	}
}

// script is the body of every fault run. It reports false if the fault poisoned
// the writer.
func (r *faultRun) script() bool {
	r.open()
	for i := range 80 {
		if !r.append() {
			return false
		}
		if i%3 == 0 {
			r.mark()
		}
		if i%10 == 9 {
			r.release()
		}
	}
	if err := r.w.Close(); err != nil {
		r.mustBeInjected("Close", err)
	}
	r.open()
	for range 5 {
		if !r.append() {
			return false
		}
	}
	return true
}

// release frees what lies before the current segment.
func (r *faultRun) release() {
	at, known := r.starts[r.w.Segment()]
	if !known {
		return
	}
	r.spans, r.first = []base.LogSpan{{First: r.w.Current()}}, at
	if err := r.w.Release(r.w.Segment()); err != nil {
		r.mustBeInjected("Release", err)
	}
}

// checkAfter checks, after the faults, a power cut, and a restart on the same
// machine with a later power cut.
func (r *faultRun) checkAfter(rng *rand.Rand) {
	r.t.Helper()
	o := r.o
	o.Random = rng.Uint64
	kinds := memfs.CrashKinds()
	for range 4 {
		kind := kinds[rng.IntN(len(kinds))]
		o.FS = r.disk.Crash(kind, rng)
		next := r.first
		if _, err := recoverAll(o, r.spans, collect(&next)); err != nil || next < r.acked || next > r.built {
			r.t.Fatalf("%s: then a crash (%s): %d transactions, want %d to %d: %v",
				r.what, kind, next, r.acked, r.built, err)
		}
	}
	o.FS = r.disk
	next := r.first
	w, spans, err := open(o, r.spans, collect(&next))
	if err != nil || next < r.acked || next > r.built {
		r.t.Fatalf("%s: then a restart: %d transactions, want %d to %d: %v", r.what, next, r.acked, r.built, err)
	}
	must(r.t, appendTx(w, testPayload(next)))
	must(r.t, w.Flush())
	must(r.t, w.Sync())
	o.FS = r.disk.Crash(memfs.KeepNone, rng)
	after := r.first
	if _, err := recoverAll(o, spans, collect(&after)); err != nil || after != next+1 {
		r.t.Fatalf("%s: then a restart, a commit and a crash: %d transactions, want %d: %v",
			r.what, after, next+1, err)
	}
}

func TestFaults_AnyCallLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	plain := newFaultRun(t, "no fault", faultfs.Rule{Nth: 1 << 40})
	if !plain.script() {
		t.Fatal("poisoned without a fault")
	}
	calls := plain.faults.Calls()
	// With -stoat.states=-1 every call fails in every way.
	every := max(1, int64(dose.Size(t, dose.States, 10, 3)))
	rng := rand.New(rand.NewPCG(dose.Seed(t), 9))
	rules := []faultfs.Rule{
		{Sync: vfs.SyncDropped}, {Sync: vfs.SyncHalf}, {Sync: vfs.SyncKept}, {Sync: vfs.SyncNotTried},
		{Done: true}, {Partial: 100}, {Err: vfs.ErrNoSpace}, {Err: io.EOF},
		{Sync: vfs.SyncDropped, Forever: true},
	}
	for i, rule := range rules {
		for n := int64(1); n <= calls; n++ {
			if (n+int64(i))%every != 0 {
				continue
			}
			rule.Nth, rule.Seed = n, uint64(n)
			r := newFaultRun(t, fmt.Sprintf("rule %d, call %d", i, n), rule)
			if rule.Forever {
				r.runForever(rng)
				continue
			}
			if !r.script() {
				r.checkPoisoned()
			}
			r.faults.Clear()
			r.checkAfter(rng)
		}
	}
}

// runForever runs until the fault hits and then checks.
func (r *faultRun) runForever(rng *rand.Rand) {
	next := 0
	w, spans, err := open(r.o, nil, collect(&next))
	if err != nil {
		r.mustBeInjected("open", err)
		r.checkAfter(rng)
		return
	}
	r.w, r.spans = w, spans
	for range 60 {
		p := testPayload(r.built)
		if err := w.Reserve(int64(len(p))); err != nil {
			r.mustBeInjected("Reserve", err)
			break
		}
		if !r.append() {
			break
		}
	}
	r.faults.Clear()
	r.checkAfter(rng)
}

func TestFaults_AnyCallWhileCarryingATailLosesNothing(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, dose.Seed(t))
	d.open()
	for d.w.Stats().Rotations < 2 {
		d.append()
	}
	d.sync()
	for range 4 {
		d.append()
	}
	must(t, d.w.Flush())
	rules := []faultfs.Rule{{}, {Done: true}, {Partial: 100}, {Err: vfs.ErrNoSpace}, {Err: io.EOF},
		{Sync: vfs.SyncHalf}, {Sync: vfs.SyncKept}, {Sync: vfs.SyncNotTried}}
	for i, rule := range rules {
		for n := int64(1); ; n++ {
			disk := d.disk.Clone()
			faults := faultfs.New(disk)
			rule.Nth, rule.Seed = n, uint64(n)
			faults.Add(rule)
			d.openWithFault(disk, faults, fmt.Sprintf("rule %d, call %d", i, n))
			if failed, _ := faults.Failed(); failed == 0 {
				break
			}
		}
	}
}

// openWithFault opens the log on a copy of the disk while a call fails.
func (d *workload) openWithFault(disk *memfs.FS, faults *faultfs.FS, what string) {
	d.t.Helper()
	o := d.o
	o.FS = faults
	next := d.first
	r, err := recoverAll(o, d.spans, collect(&next))
	if err != nil {
		next = d.first
		if r, err = recoverAll(o, d.spans, collect(&next)); err != nil {
			d.t.Fatalf("%s: second Recover: %v", what, err)
		}
	}
	if next != d.built || !r.Unproven() {
		d.t.Fatalf("%s: %d transactions, want %d; unproven %v", what, next, d.built, r.Unproven())
	}
	w, err := Create(o, r)
	if err != nil {
		d.checkCrash(disk.Crash(memfs.KeepNone, d.rng), what+", Create failed, a crash")
		if w, err = Create(o, r); err != nil {
			d.t.Fatalf("%s: second Create: %v", what, err)
		}
	}
	spans := append(r.Spans[:len(r.Spans):len(r.Spans)], base.LogSpan{First: w.First()})
	n, _, err := d.recovered(disk.Crash(memfs.KeepNone, d.rng), spans)
	if err != nil || n != d.built {
		d.t.Fatalf("%s: %d transactions after a crash, want %d: %v", what, n, d.built, err)
	}
	// An error of Close concerns only the marks, or files no longer needed.
	_ = w.Close()
}

func TestDiskFull_DoesNotPoisonAndCommitsResume(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	d.append()
	d.sync()
	d.disk.SetCapacity(d.disk.UsedBytes())
	p := make([]byte, 1000)
	commits := 0
	var err error
	for err == nil {
		if err = d.w.Reserve(1000); err == nil {
			d.w.Begin()
			d.w.Write(p)
			d.w.End()
			must(t, d.w.Flush())
			must(t, d.w.Sync())
			commits++
		}
	}
	if !errors.Is(err, vfs.ErrNoSpace) || d.w.Err() != nil || commits == 0 {
		t.Fatalf("after %d commits: %v; poisoned: %v", commits, err, d.w.Err())
	}
	if err := d.w.Reserve(0); err != nil {
		t.Fatalf("a small record has room left: %v", err)
	}
	d.disk.SetCapacity(1 << 30)
	must(t, d.w.Reserve(1000))
	d.w.Begin()
	d.w.Write(p)
	d.w.End()
	must(t, d.w.Close())
	n := 0
	r, err := recoverAll(d.o, d.spans, func([]byte) error { n++; return nil })
	must(t, err)
	if n != commits+2 || r.Records != int64(n) {
		t.Fatalf("%d transactions, %d records, want %d", n, r.Records, commits+2)
	}
}

// A promise of Reserve must hold even when another program fills the disk right after it.
func TestReserve_WritesAheadWithoutPreallocation(t *testing.T) {
	t.Parallel()
	const room = 1 << 30
	for _, size := range []int{100, 100_000, 3 << 20} { // small syncs, bulk syncs, and segments for one record
		disk := newTestDisk(t)
		disk.SetReserves(false)
		o := testOptions(disk, 1)
		o.SegmentSizeMin, o.SegmentSizeMax, o.FrameSizeMax = 64<<10, 1<<20, 0
		w, spans, err := open(o, nil, nil)
		must(t, err)
		p, n := make([]byte, size), 0
		for ; w.Stats().Rotations < 4; n++ {
			must(t, w.Reserve(int64(size)))
			disk.SetCapacity(disk.UsedBytes())
			w.Begin()
			w.Write(p)
			w.End()
			must(t, w.Flush())
			must(t, w.Sync())
			disk.SetCapacity(room)
		}
		disk.SetCapacity(disk.UsedBytes())
		for err == nil {
			if err = appendTx(w, p); err == nil {
				n++
			}
		}
		if !errors.Is(err, vfs.ErrNoSpace) || w.Err() != nil {
			t.Fatalf("records of %d bytes: Reserve on a full disk: %v; poisoned: %v", size, err, w.Err())
		}
		disk.SetCapacity(room)
		must(t, appendTx(w, p))
		must(t, w.Close())
		if r, err := recoverAll(o, spans, func([]byte) error { return nil }); err != nil || r.Records != int64(n+1) {
			t.Fatalf("records of %d bytes: %d of %d were recovered: %v", size, r.Records, n+1, err)
		}
	}
}

func TestDiskFull_CreateChangesNothingOrRecycles(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	d.append()
	d.sync()
	d.disk.SetCapacity(d.disk.UsedBytes())
	next := 0
	r, err := recoverAll(d.o, d.spans, collect(&next))
	must(t, err)
	if _, err := Create(d.o, r); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("Create on a full disk: %v", err)
	}
	d.checkCrash(d.disk.Crash(memfs.KeepNone, d.rng), "after a failed Create")
	d.disk.SetCapacity(1 << 30)
	w, err := Create(d.o, r)
	must(t, err)
	d.w, d.spans = w, append(r.Spans, base.LogSpan{First: w.First()})

	// With a free file, a full disk does no harm.
	for d.w.Stats().FreeFiles == 0 {
		d.append()
		d.release()
	}
	d.disk.SetCapacity(d.disk.UsedBytes())
	d.open()
	d.append()
	d.sync()
}

func TestCreate_RetryAfterCarryIntoFreeFileFails(t *testing.T) {
	t.Parallel()
	d := newWorkload(t, 1)
	d.open()
	for d.w.Stats().FreeFiles == 0 {
		d.append()
		d.release()
	}
	d.append()
	must(t, d.w.Flush()) // not synced, so the next span must carry it
	next := d.first
	r, err := recoverAll(d.o, d.spans, collect(&next))
	must(t, err)
	if !r.Unproven() {
		t.Fatal("there is nothing to carry")
	}
	faults := faultfs.New(d.disk)
	o := d.o
	o.FS = faults
	// The first two writes are the blocks and the header; the third carries.
	faults.Add(faultfs.Rule{Op: vfs.OpWrite, Nth: 3, Err: vfs.ErrNoSpace, Forever: true})
	d.disk.SetCapacity(d.disk.UsedBytes())
	before, err := d.disk.List(d.o.Dir)
	must(t, err)
	for range 3 {
		if _, err := Create(o, r); !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatalf("Create on a full disk: %v", err)
		}
		// The next Create needs the free file on a full disk.
		if after, err := d.disk.List(d.o.Dir); err != nil || !slices.Equal(after, before) {
			t.Fatalf("the files were %v, and are %v after a failed Create: %v", before, after, err)
		}
	}
	faults.Clear()
	w, err := Create(o, r)
	must(t, err)
	must(t, w.Close())
}

func TestRelease_RemoveThatFailedButHappened(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(newTestDisk(t))
	o := Options{FS: faults, Dir: testDir, Random: rand.New(rand.NewPCG(1, 1)).Uint64, SegmentSizeMax: 4 << 20}
	w, _, err := open(o, nil, nil)
	must(t, err)
	fillAndShrink(t, w)
	faults.Add(faultfs.Rule{Op: vfs.OpRemove, Done: true, Err: vfs.ErrIO})
	if err := w.Trim(); !errors.Is(err, vfs.ErrIO) {
		t.Fatalf("a removal failed, and Rest returned %v", err)
	}
	must(t, w.Close())
}
