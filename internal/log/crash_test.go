package log

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A workload runs random steps on a log and knows what must be there after a
// crash. The field spans stands for the manifest: it changes at once and never
// fails.
type workload struct {
	t    *testing.T
	disk *memfs.FS
	o    Options
	rng  *rand.Rand
	w    *Writer

	spans []base.LogSpan
	// Transactions from first on are in the log. Those below acked are known to
	// be durable, those below flushed are written, those below built are begun.
	first, acked, flushed, built int
	// starts is the first transaction of each segment, by segment number.
	starts map[uint64]int
	// inLane says that Sync is under way.
	inLane bool
	// late says that background jobs run at random steps, and before what waits for them.
	late bool
	jobs []func() // that have not run yet
}

func newWorkload(t *testing.T, seed uint64) *workload {
	d := &workload{t: t, disk: newTestDisk(t), rng: rand.New(rand.NewPCG(seed, 2))}
	d.o = testOptions(d.disk, seed)
	return d
}

// runLate makes background jobs run late.
func (d *workload) runLate() {
	d.late = true
	d.o.Go = func(job func()) { d.jobs = append(d.jobs, job) }
}

// runJobs runs all background jobs.
func (d *workload) runJobs() {
	for len(d.jobs) > 0 {
		job := d.jobs[0]
		d.jobs = d.jobs[1:]
		job()
	}
}

// runPreparation runs the newest jobs until no segment is being prepared.
func (d *workload) runPreparation() {
	for n := len(d.jobs) - 1; d.w.mu.preparing; n-- {
		job := d.jobs[n]
		d.jobs = d.jobs[:n]
		job()
	}
}

// close closes the log.
func (d *workload) close() {
	d.runJobs()
	must(d.t, d.w.Close())
}

// rotated notes a rotation, if there was one since segment was the current one.
func (d *workload) rotated(segment uint64) {
	now := d.w.Segment()
	if now == segment {
		return
	}
	d.starts[now], d.flushed = d.built, d.built
	if !d.late {
		d.acked = d.built
	}
}

// open opens the log. It checks that recovery finds at least the acknowledged
// transactions.
func (d *workload) open() {
	d.t.Helper()
	d.jobs = nil
	next := d.first
	r, err := recoverAll(d.o, d.spans, collect(&next))
	must(d.t, err)
	if next < d.acked || next > d.built {
		d.t.Fatalf("%d transactions recovered, want %d to %d", next, d.acked, d.built)
	}
	d.flushed, d.built = next, next
	d.w, err = Create(d.o, r)
	must(d.t, err)
	d.spans = append(r.Spans[:len(r.Spans):len(r.Spans)], base.LogSpan{First: d.w.First()})
	d.acked = next
	d.starts = map[uint64]int{}
	must(d.t, d.w.Release(d.spans[0].First.Number))
}

// step does one random action.
func (d *workload) step() {
	if len(d.jobs) > 0 && d.rng.IntN(20) == 0 {
		job := d.jobs[0]
		d.jobs = d.jobs[1:]
		job()
	}
	switch d.rng.IntN(20) {
	case 0:
		d.close()
		d.acked = d.built
		d.open()
	case 1:
		d.release()
	case 19:
		d.open() // as after a crash of the process
	case 2:
		segment := d.w.Segment()
		d.runJobs()
		must(d.t, d.w.Shrink())
		d.rotated(segment)
	case 3, 4, 5, 6:
		d.sync()
	case 7, 8, 9:
		must(d.t, d.w.Flush())
		d.flushed = d.built
	case 10, 11:
		must(d.t, d.w.Flush())
		d.flushed = d.built
		must(d.t, d.w.Mark())
	default:
		d.append()
	}
}

func (d *workload) append() {
	segment := d.w.Segment()
	p := testPayload(d.built)
	d.runPreparation()
	if rotates := d.w.b.Offset()+4000 > d.w.limit; rotates && len(d.w.mu.pending) == pendingMax {
		d.runJobs()
	}
	must(d.t, d.w.Reserve(int64(len(p))))
	d.rotated(segment)
	d.built++
	d.w.Begin()
	d.w.Write(p)
	d.w.End()
}

func (d *workload) sync() {
	must(d.t, d.w.Flush())
	d.flushed = d.built
	target := d.flushed
	d.runJobs()
	d.inLane = true
	must(d.t, d.w.Sync())
	d.inLane = false
	d.acked = max(d.acked, target)
}

// overlap does what another commit group may do while a sync is running: build,
// flush, and even finish a sync on the other lane first.
func (d *workload) overlap() {
	if !d.inLane {
		return
	}
	d.inLane = false
	defer func() { d.inLane = true }()
	for range d.rng.IntN(4) {
		if int64(d.w.b.Offset())+4000 > d.w.limit {
			return // a rotation has boundaries of its own
		}
		d.append()
	}
	if d.rng.IntN(2) == 0 {
		must(d.t, d.w.Flush())
		d.flushed = d.built
		if d.rng.IntN(2) == 0 {
			must(d.t, d.w.Mark())
		}
		if d.rng.IntN(2) == 0 {
			target := d.flushed
			must(d.t, d.w.Sync())
			d.acked = max(d.acked, target)
		}
	}
}

// release frees what lies before the current segment, as a flush does.
func (d *workload) release() {
	at, known := d.starts[d.w.Segment()]
	if !known {
		return
	}
	d.sync()
	d.spans = []base.LogSpan{{First: d.w.Current()}}
	d.first = at
	must(d.t, d.w.Release(d.w.Segment()))
}

// recovered returns the number of transactions on disk after a crash.
func (d *workload) recovered(disk *memfs.FS, spans []base.LogSpan) (int, Recovered, error) {
	o := d.o
	o.FS = disk
	o.Random = rand.New(rand.NewPCG(d.rng.Uint64(), 3)).Uint64
	next := d.first
	r, err := recoverAll(o, spans, collect(&next))
	return next, r, err
}

// checkCrash checks what recovery finds on a disk after a crash.
func (d *workload) checkCrash(disk *memfs.FS, what string) int {
	d.t.Helper()
	n, _, err := d.recovered(disk, d.spans)
	if err != nil {
		d.t.Fatalf("%s: %v", what, err)
	}
	if n < d.acked || n > d.built {
		d.t.Fatalf("%s: %d transactions recovered, want %d to %d", what, n, d.acked, d.built)
	}
	return n
}

func TestCrash_AtAnyBoundaryLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	seed, wanted := dose.Seed(t), dose.Size(t, dose.States, 300, 8000)
	for states := 0; states < wanted; seed++ {
		d := newWorkload(t, seed)
		if seed%2 == 0 {
			d.runLate()
		}
		crash := rand.New(rand.NewPCG(seed, 4))
		boundaries := 0
		d.disk.SetHook(func(op vfs.Op) {
			boundaries++
			for _, kind := range memfs.CrashKinds() {
				states++
				d.checkCrash(d.disk.Crash(kind, crash), fmt.Sprintf("boundary %d, before %s, %s", boundaries, op, kind))
			}
			d.overlap()
		})
		d.open()
		for range 150 {
			if states < wanted {
				d.step()
			}
		}
		d.disk.SetHook(nil)
	}
}

func TestCrash_AgainDuringAndAfterRecovery(t *testing.T) {
	t.Parallel()
	seed, wanted := dose.Seed(t), dose.Size(t, dose.States, 50, 300)
	for states := 0; states < wanted; seed++ {
		d := newWorkload(t, seed)
		if seed%2 == 0 {
			d.runLate()
		}
		crash := rand.New(rand.NewPCG(seed, 5))
		kinds := memfs.CrashKinds()
		d.disk.SetHook(func(vfs.Op) {
			if crash.IntN(4) == 0 {
				states += 2
				// A killed process leaves what it wrote; a power cut does not.
				d.checkReopening(d.disk.Clone(), crash)
				d.checkReopening(d.disk.Crash(kinds[crash.IntN(len(kinds))], crash), crash)
			}
			d.overlap()
		})
		d.open()
		for range 200 {
			if states < wanted {
				d.step()
			}
		}
		d.disk.SetHook(nil)
	}
}

// checkReopening opens the log on a disk after a crash. It crashes a second time
// at each boundary of the opening, and a third time later.
func (d *workload) checkReopening(disk *memfs.FS, crash *rand.Rand) {
	d.t.Helper()
	n, r, err := d.recovered(disk, d.spans)
	if err != nil || n < d.acked || n > d.built {
		d.t.Fatalf("%d transactions recovered, want %d to %d: %v", n, d.acked, d.built, err)
	}
	o := d.o
	o.FS = disk
	o.Random = crash.Uint64
	o.Go = func(job func()) { job() }
	kinds := memfs.CrashKinds()
	boundary := 0
	disk.SetHook(func(op vfs.Op) {
		boundary++
		again := disk.Crash(kinds[crash.IntN(len(kinds))], crash)
		m, _, err := d.recovered(again, d.spans)
		if err != nil || m < d.acked || m > n {
			d.t.Fatalf("second crash, boundary %d of Create, before %s: %d transactions, want %d to %d: %v",
				boundary, op, m, d.acked, n, err)
		}
	})
	w, err := Create(o, r)
	must(d.t, err)
	spans := append(r.Spans[:len(r.Spans):len(r.Spans)], base.LogSpan{First: w.First()})
	disk.SetHook(nil)
	for range 3 {
		kind := kinds[crash.IntN(len(kinds))]
		after, _, err := d.recovered(disk.Crash(kind, crash), spans)
		if err != nil || after != n {
			d.t.Fatalf("crash (%s) after the new span was recorded: %d transactions, want %d: %v", kind, after, n, err)
		}
	}
	must(d.t, appendTx(w, testPayload(n)))
	must(d.t, w.Flush())
	must(d.t, w.Sync())
	after, _, err := d.recovered(disk.Crash(memfs.KeepNone, crash), spans)
	if err != nil || after != n+1 {
		d.t.Fatalf("crash after a commit: %d transactions, want %d: %v", after, n+1, err)
	}
	must(d.t, w.Close())
}
