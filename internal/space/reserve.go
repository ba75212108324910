package space

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// lookPart: the reserve looks again when transactions have used up the room divided
	// by lookPart. Flushes and copies take some meanwhile, and each edit of the manifest
	// comes with a look.
	lookPart = 4
	// waitMax is the longest time that an adding transaction waits for background jobs
	// to free space, before it is refused.
	waitMax = time.Second
	// waitEvery is the time between two checks of a waiting transaction.
	waitEvery = 5 * time.Millisecond
	// yieldBelow: delete-only commits yield to background jobs while free space is
	// below yieldBelow times the flush reserve.
	yieldBelow = 2
	// fullFor is how long space is scarce after a write that found none, although the
	// system reports enough. So it is with quotas.
	fullFor = 10 * time.Second
	// freeMax is a number of bytes that is greater than any disk.
	freeMax = 1 << 60
	// blockSize is the unit in which files take space, in bytes.
	blockSize = 4 << 10
)

// Options are what a Reserve is made of.
type Options struct {
	FS           vfs.FS
	Dir          string
	SegmentBytes int64 // of a small segment of the log
	TableSize    int64 // bytes of a full table
	Group        *work.Group
	Report       event.Sink
	// MemtableBytes returns how much flushes may have to write, in bytes. It takes
	// no lock.
	MemtableBytes func() int64
	// Flush, Compact and Collect wake the workers.
	Flush, Compact, Collect func()
}

// A Reserve watches how much of the disk is free.
type Reserve struct {
	o Options

	// left is how many bytes may be promised before the next look, and promised how
	// many were promised and not taken yet.
	left, promised atomic.Int64
	refused        atomic.Int64 // how many transactions were refused
	fullAt         atomic.Int64 // when a write found no space, of work.Now, and 0 if none has

	looking lock.Mutex[lock.Looking] // held to look, and to promise what the look found
	wanted  []int64                  // bytes of each transaction that waits for room; guarded by looking
	waiting atomic.Int64             // the length of wanted
	least   atomic.Int64             // the least of wanted, 0 if it is empty
	// What the last look found; written under looking.
	free, reserve, flushReserve atomic.Int64
	low                         atomic.Bool

	jobs atomic.Pointer[Need] // what the next jobs need, as of the last edit
	// The merge and the copy that failed for lack of space; nil is none.
	shortMerge, shortCopy atomic.Pointer[shortage]
	// shortFlush is how much was free when a flush failed for lack of space that
	// no caller waited for, 0 if none has.
	shortFlush atomic.Int64
	resting    atomic.Uint32 // the kinds of jobs that found nothing to do since the last edit
	steps      atomic.Int32  // of jobs under way
}

// A Need is how many bytes the next jobs write before they free any.
type Need struct {
	Merge int64
	Copy  int64 // of the largest value file
}

func (n Need) sum() int64 { return n.Merge + n.Copy }

// A Job is a kind of background job, as a bit.
type Job uint32

// The kinds of background jobs.
const (
	Flushes Job = 1 << iota
	Merges
	Collections
	allJobs = Flushes | Merges | Collections
)

// New returns the reserve of a database.
func New(o Options) *Reserve {
	r := &Reserve{o: o}
	r.jobs.Store(&Need{})
	return r
}

// Admit promises that many bytes to a transaction, if there is room. Otherwise it
// waits for as long as background jobs may free some, a second at most, and until
// ctx is done. The caller holds no lock, and calls Taken when the bytes are on the
// disk or the transaction has failed.
func (r *Reserve) Admit(ctx context.Context, bytes int64) error {
	r.promised.Add(bytes)
	if r.left.Add(-bytes) >= 0 {
		return nil
	}
	r.promised.Add(-bytes)
	if r.Promise(bytes) {
		return nil
	}
	r.beginWait(bytes)
	defer r.endWait(bytes)
	for until := work.Now() + int64(waitMax); r.promising() && work.Now() < until; {
		if err := r.o.Group.Sleep(ctx, waitEvery); err != nil {
			return err
		}
		if r.Promise(bytes) {
			return nil
		}
	}
	if r.Promise(bytes) { // what a job has freed in its last step
		return nil
	}
	r.refused.Add(1)
	return fmt.Errorf("the disk has %d bytes free and keeps %d for deletions; this write may need %d: %w",
		r.free.Load(), r.reserve.Load(), bytes, vfs.ErrNoSpace)
}

// Taken ends a promise of that many bytes.
func (r *Reserve) Taken(bytes int64) { r.promised.Add(-bytes) }

// Yield makes a delete-only transaction wait for background jobs while little is free:
// both need the same room. It refuses no transaction. The caller holds no lock.
func (r *Reserve) Yield(ctx context.Context) error {
	if !r.low.Load() {
		return nil
	}
	for until := work.Now() + int64(waitMax); r.working() && work.Now() < until; {
		if r.Look(); r.free.Load() >= yieldBelow*r.flushReserve.Load() {
			return nil
		}
		if err := r.o.Group.Sleep(ctx, waitEvery); err != nil {
			return err
		}
	}
	return nil
}

// Promise looks how much is free, and promises that many bytes if there is room. It does not
// wait. The caller calls Taken when the bytes are on the disk, or when they will not come.
func (r *Reserve) Promise(bytes int64) bool {
	r.looking.Lock()
	defer r.looking.Unlock()
	if r.lookLocked() < bytes {
		return false
	}
	r.promised.Add(bytes)
	r.left.Add(-bytes)
	return true
}

// beginWait notes that a transaction waits for that many bytes, and wakes the workers.
func (r *Reserve) beginWait(bytes int64) {
	r.looking.Lock()
	r.wanted = append(r.wanted, bytes)
	r.noteWaiting()
	r.looking.Unlock()
	r.wakeAll()
}

// endWait ends a wait for that many bytes.
func (r *Reserve) endWait(bytes int64) {
	r.looking.Lock()
	defer r.looking.Unlock()
	i := slices.Index(r.wanted, bytes)
	r.wanted = slices.Delete(r.wanted, i, i+1)
	r.noteWaiting()
}

// noteWaiting counts the transactions that wait. The caller holds looking.
func (r *Reserve) noteWaiting() {
	least := int64(0)
	if len(r.wanted) > 0 {
		least = slices.Min(r.wanted)
	}
	r.least.Store(least)
	r.waiting.Store(int64(len(r.wanted)))
}

// Scarce reports whether there is less room than some transaction needs. Then every job
// that frees space is worth its cost.
func (r *Reserve) Scarce() bool { return r.low.Load() || r.waiting.Load() > 0 || r.full() }

// full reports whether a write has found no space lately, although the system reports enough.
func (r *Reserve) full() bool {
	at := r.fullAt.Load()
	return at != 0 && work.Now()-at < int64(fullFor)
}

// Helps reports whether a transaction that cannot go on could, if as many bytes became free
// as freed returns. Promises to other transactions do not count, because they end soon.
func (r *Reserve) Helps(freed func() int64) bool {
	if r.low.Load() || r.full() {
		return true
	}
	lacks := r.least.Load() - r.Spare()
	return r.waiting.Load() > 0 && lacks > 0 && freed() >= lacks
}

// Lacking reports whether something waits for more room, which other programs
// may make.
func (r *Reserve) Lacking() bool {
	return r.Scarce() || r.shortMerge.Load() != nil || r.shortCopy.Load() != nil || r.shortFlush.Load() > 0
}

// working reports whether background jobs may still free space.
func (r *Reserve) working() bool {
	return (Job(r.resting.Load()) != allJobs || r.steps.Load() > 0) && r.o.Group.Works()
}

// promising reports whether background jobs may still free space, or transactions may take
// less than was promised to them.
func (r *Reserve) promising() bool {
	return r.working() || r.promised.Load() > 0 && r.o.Group.Works()
}

// Step notes that a job looks for something to do, and returns a function that ends that. A
// job that rested may do it again.
func (r *Reserve) Step() (end func()) {
	r.steps.Add(1)
	return func() { r.steps.Add(-1) }
}

// Rests notes that a kind of job has found nothing to do, or has failed.
func (r *Reserve) Rests(job Job) {
	if r.Scarce() && Job(r.resting.Or(uint32(job)))&job == 0 && job == Merges {
		r.o.Flush() // small flushes wait for that
	}
}

// Resting reports whether a kind of job has found nothing to do.
func (r *Reserve) Resting(job Job) bool { return Job(r.resting.Load())&job != 0 }

// Look measures how much is free.
func (r *Reserve) Look() {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.lookLocked()
}

// lookLocked measures how much is free, and returns how much of it may be
// promised. The caller holds looking.
func (r *Reserve) lookLocked() (room int64) {
	before := lastLook{low: r.low.Load(), merge: r.shortMerge.Load(), copy: r.shortCopy.Load(), flush: r.shortFlush.Load()}
	m := measures{free: r.freeBytes(), flushReserve: r.flushNeed(), jobs: *r.jobs.Load(), promised: r.promised.Load(), now: work.Now()}
	found := look(m, before)
	r.free.Store(m.free)
	r.reserve.Store(found.reserve)
	r.flushReserve.Store(m.flushReserve)
	if found.retryMerge {
		r.shortMerge.Store(nil)
		r.o.Compact()
	}
	if found.retryCopy {
		r.shortCopy.Store(nil)
		r.o.Collect()
	}
	if found.retryFlush {
		r.shortFlush.Store(0)
		r.o.Flush()
	}
	r.left.Store(found.room / lookPart)
	if r.low.Store(found.low); found.low != before.low {
		if found.low {
			r.o.Report(event.SpaceLow{Free: m.free, Reserve: found.reserve})
		} else {
			r.o.Report(event.SpaceRegained{Free: m.free})
		}
		r.wakeAll() // to free space, or because what waited for room goes on
	}
	return found.room
}

// wakeAll makes all workers look for space to free.
func (r *Reserve) wakeAll() {
	r.resting.Store(0)
	r.o.Flush()
	r.o.Compact()
	r.o.Collect()
}

// Edited looks again after an edit of the manifest. The edit took or freed space
// and may have made work. jobs is what the next jobs need.
func (r *Reserve) Edited(jobs Need) {
	r.jobs.Store(&jobs)
	r.Look()
	if r.Scarce() {
		r.wakeAll()
	}
}

// freeBytes returns how many bytes are free. If the system does not tell, that is
// freeMax, and only a failed write shows that the disk is full.
func (r *Reserve) freeBytes() int64 {
	free, err := r.o.FS.Free(r.o.Dir)
	if err != nil || free > freeMax {
		return freeMax
	}
	return int64(free)
}

// flushNeed returns the flush reserve: two segments of a log of deletions, and
// all that is in memory.
func (r *Reserve) flushNeed() int64 { return 2*r.o.SegmentBytes + r.o.MemtableBytes() }

// Usage says how many bytes of the disk were free at the last look, and how many are to be
// kept now. It says whether less is free than that, and how many transactions were refused.
// It makes no system call.
func (r *Reserve) Usage() (free, reserve int64, low bool, refused int64) {
	free = r.free.Load()
	reserve = r.flushNeed() + r.jobs.Load().sum()
	return free, reserve, free < reserve, r.refused.Load()
}
