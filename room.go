package stoat

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Space is given back by writing first: a flush writes tables before the log
// can go, a merge writes the tables that take the place of others, a collection
// the values that are live before it deletes the file that they were in. On a
// disk that is wholly full none of them succeeds, and deleting, which needs the
// log, would not either. So transactions that add anything are refused while
// there is still room for all of these:
//
//	free |<- may be added ->|<- reserve: log of deletions, flush, merge, copy ->|
//
// Transactions that only delete are never refused for it. While the disk is
// low, the work behind goes on as in an idle database: whatever gives space
// back is worth doing. See decision 0016.

// A diskRoom watches how much of the disk is left.
type diskRoom struct {
	db *DB
	// left is how many bytes may be added until somebody looks again, and promised
	// how many those may take who were admitted and have not taken them yet.
	left, promised atomic.Int64
	// waiting is how many transactions wait for more room.
	waiting atomic.Int64
	looking sync.Mutex // held to look, and to promise by what was found
	// What the last look has found: how much is free, how much of it is kept, and
	// how much of that for the log and for flushes. The disk is low when less is
	// free than is to be kept.
	free, reserve, first atomic.Int64
	low                  atomic.Bool
	merge                atomic.Pointer[mergeNeed]
	// short is the merge that failed for want of space, nil if there is none, and
	// shortCopy the copy of a value file.
	short     atomic.Pointer[shortMerge]
	shortCopy atomic.Pointer[shortCopy]
	// shortFlush is how much was free when a flush failed for want of space that
	// nobody waits for, 0 if none has.
	shortFlush atomic.Int64
	// rested has a bit for each kind of work that has found nothing to do since
	// there is little room, or since the last edit.
	rested  atomic.Uint32
	refused atomic.Int64
}

// The kinds of work behind, as bits.
const (
	flushRests = 1 << iota
	mergeRests
	collectionRests
	allRest = flushRests | mergeRests | collectionRests
)

const (
	// lookAfter is the part of the room that may be used up before somebody
	// looks again. Flushes and copies take some of it meanwhile, and each edit
	// of the manifest comes with a look.
	lookAfter = 4
	// roomWaitMax bounds for how long a transaction that adds something waits for
	// the work behind to give space back, before it is refused.
	roomWaitMax = time.Second
	// roomNap is how often it looks meanwhile.
	roomNap = 5 * time.Millisecond
	// yieldBelow is of how many times what the log and the flushes need less must be
	// free for transactions that only delete to let the work behind go first.
	yieldBelow = 2
	// freeMax is more than a disk has.
	freeMax = 1 << 60
	// tablesMin is how many full tables a merge may take however full the disk is.
	tablesMin = 4
	// mergeMax is how many bytes it takes where there is plenty of room.
	mergeMax = 256 << 20
)

// takes returns how much of the disk a transaction may take at most until what it
// brings is in tables: the log, the flush of the memtable, which is kept from then
// on, and what segments of the log and tables are larger than what is in them. What
// it writes apart is in neither, but may have to be copied one day.
func (r *request) takes(apartMin int64) int64 {
	apart := r.writes.large
	if apart < apartMin {
		apart = 0
	}
	return 3*max(0, r.size()-apart) + 2*apart
}

// admit returns nil if a transaction that may take so many bytes may go on, to
// whom they are promised. Where there is no room it waits for as long as the work
// behind may give some back, a second at most, and until ctx is done. The caller
// holds no lock.
func (r *diskRoom) admit(ctx context.Context, bytes int64) error {
	r.promised.Add(bytes)
	if r.left.Add(-bytes) >= 0 {
		return nil
	}
	r.promised.Add(-bytes)
	if r.promise(bytes) {
		return nil
	}
	if r.waiting.Add(1) == 1 {
		r.giveBack()
	}
	defer r.waiting.Add(-1)
	for until := monotonic() + int64(roomWaitMax); r.working() && monotonic() < until; {
		if err := r.db.admission.sleep(ctx, roomNap, 0); err != nil {
			return err
		}
		if r.promise(bytes) {
			return nil
		}
	}
	r.refused.Add(1)
	return fmt.Errorf("%d bytes are free, of which %d are kept for deleting, too few to add what may take %d: %w",
		r.free.Load(), r.reserve.Load(), bytes, ErrNoSpace)
}

// yield lets the work behind go first before a transaction that only deletes, when
// so little is free that the two would take the room from each other. It refuses
// nobody. The caller holds no lock.
func (r *diskRoom) yield(ctx context.Context) error {
	if !r.low.Load() {
		return nil
	}
	for until := monotonic() + int64(roomWaitMax); r.working() && monotonic() < until; {
		if r.look(); r.free.Load() >= yieldBelow*r.first.Load() {
			return nil
		}
		if err := r.db.admission.sleep(ctx, roomNap, 0); err != nil {
			return err
		}
	}
	return nil
}

// promise looks how much is left, and promises so many bytes if that is enough.
func (r *diskRoom) promise(bytes int64) bool {
	r.looking.Lock()
	defer r.looking.Unlock()
	if r.lookLocked() < bytes {
		return false
	}
	r.promised.Add(bytes)
	r.left.Add(-bytes)
	return true
}

// taken ends the promise to a transaction: what it has brought is in the log and
// in a memtable, and counts as such, or it has come to nothing.
func (r *diskRoom) taken(by *request) {
	r.promised.Add(-by.promised)
	by.promised = 0
}

// scarce reports whether there is less room than somebody needs, so that all is
// worth doing that gives some back.
func (r *diskRoom) scarce() bool { return r.low.Load() || r.waiting.Load() > 0 }

// lacking reports whether something waits for more room, which others than the
// database may make.
func (r *diskRoom) lacking() bool {
	return r.scarce() || r.short.Load() != nil || r.shortCopy.Load() != nil ||
		r.shortFlush.Load() > 0 || r.db.measuring.some.Load()
}

// working reports whether work behind may still give space back.
func (r *diskRoom) working() bool {
	return r.rested.Load() != allRest && r.db.driver == nil && r.db.background.stopped.Err() == nil
}

// rests notes that some work has found nothing to do, or has failed.
func (r *diskRoom) rests(kind uint32) {
	if r.scarce() && r.rested.Or(kind)&kind == 0 && kind == mergeRests {
		r.db.background.flusher.wake() // what waited for that
	}
}

// mergesRest reports whether merges have found nothing to do.
func (r *diskRoom) mergesRest() bool { return r.rested.Load()&mergeRests != 0 }

// look looks how much is left.
func (r *diskRoom) look() {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.lookLocked()
}

// lookLocked looks how much is left, beyond what is kept and promised. Whether the
// disk is low depends on what is free and what is to be kept alone, so that those
// who ask for more or less do not make it seem low and not low by turns. The caller
// holds looking.
func (r *diskRoom) lookLocked() (room int64) {
	u := r.use()
	low := u.low()
	r.free.Store(u.free)
	r.reserve.Store(u.reserve)
	r.first.Store(u.first)
	if s := r.short.Load(); s != nil && s.over(u.free) {
		r.short.Store(nil)
		r.db.background.compactor.wake()
	}
	if s := r.shortCopy.Load(); s != nil && s.over(u.free) {
		r.shortCopy.Store(nil)
		r.db.wakeCollector()
	}
	if free := r.shortFlush.Load(); free > 0 && muchMore(u.free, free) {
		r.shortFlush.Store(0)
		r.db.background.flusher.wake()
	}
	room = u.free - u.reserve - r.promised.Load()
	r.left.Store(room / lookAfter)
	switch was := r.low.Swap(low); {
	case low && !was:
		r.db.emit(SpaceLow{Free: u.free, Reserve: u.reserve})
		r.giveBack()
	case was && !low:
		r.db.emit(SpaceRegained{Free: u.free})
		r.giveBack() // what has waited for room goes on
	}
	return room
}

// A diskUse is how much of the disk is free and how much of that is kept: first
// for the log and for flushes, the rest for merges and copies.
type diskUse struct{ free, reserve, first int64 }

func (u diskUse) low() bool { return u.free < u.reserve }

// use returns what is free, which is plenty where the system does not tell, until
// a write fails; and how much giving space back takes at once: what the log and the
// flushes need, a merge, and a copy of the largest value file. A file of one long
// value is never copied.
func (r *diskRoom) use() diskUse {
	d := r.db
	free, err := d.fs.Free(d.dir)
	if err != nil || free > freeMax {
		free = freeMax
	}
	v := d.view.Load().tree.Version
	largest := int64(0)
	for _, f := range v.Values {
		if f.Values > 1 {
			largest = max(largest, f.Size)
		}
	}
	first := r.firstNeed()
	return diskUse{free: int64(free), reserve: first + r.mergeNeed(v) + largest, first: first}
}

// refusedBy takes note of the error of a write: what was found to be left before
// is not there any more, if that is the reason.
func (r *diskRoom) refusedBy(err error) {
	if errors.Is(err, ErrNoSpace) {
		r.look()
	}
}

// flushFailed takes note of why a flush failed that nobody waits for.
func (r *diskRoom) flushFailed(err error) {
	if errors.Is(err, ErrNoSpace) {
		r.look()
		r.shortFlush.Store(max(r.free.Load(), blockSize))
	}
}

// giveBack makes all work behind look for space to give back.
func (r *diskRoom) giveBack() {
	r.rested.Store(0)
	r.db.background.flusher.wake()
	r.db.background.compactor.wake()
	r.db.wakeCollector()
}

// edited looks again after an edit of the manifest, which takes space or gives
// some back, and may have made work.
func (r *diskRoom) edited() {
	r.look()
	if r.scarce() {
		r.giveBack()
	}
}

// mergeNeed returns how much merges take: what the next one does, but not more
// than an eighth of all tables, unless that is less than a few. The next one is what
// it would be with plenty of room: on a disk that fills they become smaller and
// smaller, and would leave less and less for those that come after.
func (r *diskRoom) mergeNeed(v *manifest.Version) int64 {
	if known := r.merge.Load(); known != nil && known.version == v {
		return known.bytes
	}
	all, next := int64(0), int64(0)
	for level := range manifest.Levels {
		all += v.Bytes(level)
	}
	shape := r.db.shape(idling)
	shape.InputMax, shape.OutputMax = mergeMax, 0
	if plan, due := compact.Pick(v, shape); due && !plan.Move && !plan.Drop && !plan.ForFewerFiles() {
		next = plan.InputBytes()
	}
	need := max(min(next, all/8), min(all, tablesMin*r.db.tableSize()))
	r.merge.Store(&mergeNeed{v, need})
	return need
}

// A mergeNeed is what merging a version takes.
type mergeNeed struct {
	version *manifest.Version
	bytes   int64
}

// mergeMax returns how much a merge should take at most, where a smaller one can
// be done: not so much that a flush beside it finds no room.
func (r *diskRoom) mergeMax() int64 {
	return min(max(r.free.Load()/2, tablesMin*r.db.tableSize()), mergeMax)
}

// copyMax returns how many bytes one job may write: what the log and flushes leave
// of what is free. Where that is little they share it.
func (r *diskRoom) copyMax() int64 {
	free := r.free.Load()
	return max(free-r.first.Load(), free/2)
}

// fits reports whether there is room for a copy of so many bytes. Where there is
// not for one, there may be for others, which make some.
func (r *diskRoom) fits(bytes uint64) bool { return bytes <= uint64(r.copyMax()) }

// A shortMerge is a merge that failed for want of space, although there had seemed
// to be enough: how much it was to write at most, how much was free when it had
// given that back, and when that was, of monotonic.
type shortMerge struct{ bytes, free, at int64 }

// shortMax is for how long it counts: where a quota was full and is not any more,
// the system may not tell. The same is so for copies.
const shortMax = time.Hour

// over reports whether it may be tried again when so much is free.
func (s *shortMerge) over(free int64) bool {
	return muchMore(free, s.free) || monotonic()-s.at >= int64(shortMax)
}

// muchMore reports whether an eighth more is free than before.
func muchMore(free, before int64) bool { return free > before && free/9 >= before/8 }

// A shortCopy is a copy of a value file that failed for want of space, although
// there had seemed to be enough: of how many bytes it was, how much was free when
// it had given them back, and when that was, of monotonic.
type shortCopy struct {
	bytes    uint64
	free, at int64
}

// over reports whether it may be tried again when so much is free.
func (s *shortCopy) over(free int64) bool {
	return muchMore(free, s.free) || monotonic()-s.at >= int64(shortMax)
}

// worthCopying reports whether a copy of so many bytes that nobody asks for may be
// tried: there is room for it, and it is far less than one that failed.
func (r *diskRoom) worthCopying(bytes uint64) bool {
	failed := r.shortCopy.Load()
	return r.fits(bytes) && (failed == nil || bytes <= failed.bytes/2)
}

// copied takes note of how a copy of so many bytes went.
func (r *diskRoom) copied(bytes uint64, err error) {
	failed := r.shortCopy.Load()
	switch {
	case errors.Is(err, ErrNoSpace):
		r.look()
		if failed != nil {
			bytes = min(bytes, failed.bytes)
		}
		r.shortCopy.Store(&shortCopy{bytes: bytes, free: r.free.Load(), at: monotonic()})
		r.db.background.compactor.wake() // which looks now and then from here on
	case err == nil && failed != nil && bytes > failed.bytes/2:
		r.shortCopy.CompareAndSwap(failed, nil) // somebody asked, and there is room
	}
}

// bound bounds the merges to what there is room for. When one has failed, others must
// write less: others took the room, or it was not there.
func (r *diskRoom) bound(s *compact.Shape) {
	s.InputMax, s.OutputMax = r.mergeMax(), r.copyMax()
	if short := r.short.Load(); short != nil {
		s.OutputMax = min(s.OutputMax, short.bytes/4*3)
	}
	s.OutputMax = max(1, s.OutputMax) // 0 is no bound
}

// sparing returns stop, which then also ends a job that has left less free than the
// log and the flushes need to go on: that deletions get to the disk comes first.
// Where there was little to begin with, the job leaves half of it.
func (r *diskRoom) sparing(stop func() error) func() error {
	half := r.free.Load() / 2
	return func() error {
		if err := stop(); err != nil {
			return err
		}
		free, err := r.db.fs.Free(r.db.dir)
		if err == nil && free < uint64(min(half, r.firstNeed())) {
			return fmt.Errorf("%d bytes are free, which are for the log and for flushes: %w", free, ErrNoSpace)
		}
		return nil
	}
}

// firstNeed returns what the log and flushes need: two segments of a log of
// deletions, and all that is in memory.
func (r *diskRoom) firstNeed() int64 {
	segment, _ := r.db.opts.segmentSizes()
	return 2*segment + r.db.memtableBytes()
}

// merged takes note of how a merge went that was to write so many bytes at most.
func (r *diskRoom) merged(bytes int64, err error) {
	if errors.Is(err, ErrNoSpace) {
		r.look()
		r.short.Store(&shortMerge{bytes: bytes, free: r.free.Load(), at: monotonic()})
	}
}
