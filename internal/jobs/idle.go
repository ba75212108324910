package jobs

import (
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/work"
)

const (
	// idleFlushMin is the size in bytes of a memtable that an idle database flushes,
	// or an eighth of a full one. Bytes that commits wrote to value files count as
	// well: what they replaced is not known to be garbage before a flush.
	idleFlushMin = 1 << 20
	// idleLogMin is the size in bytes of the segments of a log for which an idle database
	// flushes a smaller memtable. Segments can go only after such a flush.
	idleLogMin = 1 << 20
	// idleRetryMax is the longest wait after flushes that failed and that only
	// idleness asks for.
	idleRetryMax = time.Hour

	// trickleEvery is the time between two looks of the flusher at how much was
	// committed.
	trickleEvery = time.Minute
	// trickleMax is how many bytes may be committed in trickleEvery for the log to delete
	// its spare segments.
	trickleMax = 64 << 10
	// trickleShare is a factor: a memtable is flushed if it holds that many times what was
	// committed in trickleEvery. So a memtable that fills steadily, however slowly, is left
	// alone for hours.
	trickleShare = 256
)

// An idleRetry is how long the flusher waited after the last flush that failed and that
// only idleness asked for. It is 0 if none failed since one succeeded.
type idleRetry time.Duration

// next returns how long to wait now. A commit or more space wakes the flusher
// before that.
func (r *idleRetry) next() time.Duration {
	*r = min(max(idleRetry(work.RetryMax), 2**r), idleRetry(idleRetryMax))
	return time.Duration(*r)
}

// idleInputs is what the flusher knows when no memtable waits to be flushed.
type idleInputs struct {
	load       work.Load
	scarce     bool // space is scarce
	log        bool // there is a log: something was committed since Open
	empty      bool // the active memtable is empty
	deletions  bool // its deletions hide enough
	trickle    bool // hardly anything is added to what it holds
	large      bool // it, or the log, is large enough for a flush in idleness, or to be given up
	manyRuns   bool // a merge of level 0 in a pause is due, and should come after a flush
	mergesRest bool // merges found nothing to do while space is scarce
}

// idleDecision is what the flusher does.
type idleDecision struct {
	wait   bool // look again when the load falls; commits need not wake the flusher
	rest   bool // nothing to do while space is scarce
	trim   bool // give back what is kept for times with more to write
	flush  bool // the active memtable
	shrink bool // and move the log to a small segment
}

// decideIdle decides what to do with a memtable that is not full.
//
//   - An idle database flushes a memtable that is worth it. The log then becomes small, and
//     idle merges begin.
//   - Deletions that hide much, and a trickle of commits, do not wait for idleness. Nor does
//     anything that is worth a flush while space is scarce.
//   - A pause is enough if a merge of level 0 should come after the flush.
//   - While space is scarce, a small memtable is flushed last, after merges have come to
//     rest. Before that, tables of a few deletions would take the room from the merges.
func decideIdle(in idleInputs) idleDecision {
	worth := in.deletions || in.trickle || in.large
	rest := in.load == work.Idle || in.scarce
	switch {
	case in.load == work.Idle, in.deletions, in.trickle, in.scarce && worth, in.load == work.Pausing && in.manyRuns:
	default:
		return idleDecision{wait: true, rest: true}
	}
	d := idleDecision{trim: rest, shrink: rest || in.deletions || in.trickle}
	switch {
	case worth:
		d.flush = true
	case !in.scarce || !in.log || in.empty:
		d.rest = true
	default:
		d.flush = in.mergesRest // merges wake the flusher when they rest
	}
	return d
}

// idleFlush flushes the active memtable if that is worth it, and returns when to
// look again.
func (j *Jobs) idleFlush() (again time.Duration, err error) {
	j.commits.Doze() // from here on a commit wakes the flusher
	in, falls, again := j.idleInputs()
	d := decideIdle(in)
	if d.wait {
		j.commits.Awake()
		again = falls
	}
	if d.trim {
		j.trim()
	}
	if d.rest {
		j.space.Rests(space.Flushes)
	}
	if !d.flush {
		return again, nil
	}
	if j.commits.Failed() != nil {
		return 0, nil // what ended the commits has been told
	}
	if err := j.commits.Rotate(d.shrink); err != nil {
		err = fmt.Errorf("flush: %w", err)
		j.commits.JobFailed(err)
		return 0, err
	}
	if v := j.store.View(); len(v.Memtables) > 1 {
		if flushable(v, j.store.Visible(), flushBytes) < len(v.Memtables) { // or the commit that publishes the rest wakes the flusher
			j.o.Flush()
		}
		return 0, nil
	}
	did, err := j.leaveLog()
	if err != nil {
		j.commits.JobFailed(err)
	} else if !did {
		j.space.Rests(space.Flushes)
	}
	return 0, err
}

// idleInputs gathers what decideIdle needs. falls is in how much time the load
// falls, again in how much time deletions are worth another look.
func (j *Jobs) idleInputs() (in idleInputs, falls, again time.Duration) {
	active, l := j.store.View().Memtables[0], j.commits.Log()
	in = idleInputs{scarce: j.space.Scarce(), log: l != nil, empty: active.Len() == 0, mergesRest: j.space.Resting(space.Merges)}
	in.load, falls = j.o.Activity.Load()
	in.deletions, again = j.deletionsDue(in.load == work.Idle, in.scarce)
	if l != nil {
		in.trickle = in.load != work.Idle && j.trickles(active)
		least := j.flushMin()
		in.large = active.Bytes() >= least || j.commits.HeldByActive() >= least || j.commits.NeededLogBytes() >= idleLogMin
	}
	in.large = in.large || j.commits.KeepsTooMuch()
	in.manyRuns = j.flushesFirst() && j.store.Version().Runs() >= pausingRuns
	return in, falls, again
}

// flushMin is how many bytes are worth a flush of their own.
func (j *Jobs) flushMin() int64 { return min(idleFlushMin, j.o.MemtableSize/8) }

// flushesFirst reports whether so much waits in memory that a merge of level 0 in
// a pause should come after a flush. Otherwise the merge would rewrite what is
// below once more for it.
func (j *Jobs) flushesFirst() bool {
	fill := j.store.Fill()
	return fill.Waiting > 0 || fill.ActiveBytes >= j.o.MemtableSize/8
}

// A trickle measures commits to a database that is never idle and is hardly written. Its
// memtable may never become full. Then merges never find what it has deleted or what has
// expired in it, and the log keeps all of it.
type trickle struct {
	table     *memtable.Table // the active one
	committed int64           // bytes, at the last look
	at        int64           // of work.Now
}

// passed returns how many bytes were committed since the look before, if t took
// all of them and it is time for another look.
func (k *trickle) passed(t *memtable.Table, committed, now int64) (bytes int64, known bool) {
	before := *k
	if known = t == k.table; known && now-k.at < int64(trickleEvery) {
		return 0, false
	}
	*k = trickle{table: t, committed: committed, at: now}
	return committed - before.committed, known
}

// trickles reports whether the active memtable is to be flushed because hardly
// anything is added to what it holds. The log then gives back what it keeps.
func (j *Jobs) trickles(t *memtable.Table) bool {
	bytes, known := j.trickle.passed(t, j.commits.Counts.Bytes.Load(), work.Now())
	if known && bytes <= trickleMax {
		j.commits.TrimLog()
	}
	return known && t.Bytes() >= max(j.flushMin(), trickleShare*bytes)
}

// trim gives back what is kept for later writes. Before the first
// commit, when there is no log yet, it starts the jobs that an earlier opening
// left.
func (j *Jobs) trim() {
	if j.commits.Log() == nil {
		j.o.Compact()
		j.o.Collect()
	} else {
		j.commits.TrimLog()
	}
	j.store.Memory.Trim()
}

// decideLeaving decides whether to give up the log before the segment first. Tables hold
// all commits of that part. spans is the log that the manifest names. keep returns what the
// manifest must name then, and whether value files became free.
func decideLeaving(first base.SegmentRef, spans []base.LogSpan, keep func(first base.SegmentRef) ([]base.LogSpan, bool)) (kept []base.LogSpan, leave bool) {
	if first == (base.SegmentRef{}) {
		return nil, false // what recovery found is not in tables
	}
	kept, freed := keep(first)
	return kept, freed || !slices.Equal(kept, spans) // or that was done before
}

// leaveLog gives up the log before the segment that Rotate moved to. There was nothing to
// flush, because tables hold all of those commits. leaveLog keeps what feeds may need, and
// reports whether it gave up anything.
func (j *Jobs) leaveLog() (did bool, err error) {
	v, s := j.store.View(), j.store.State()
	first := v.LogFrom[len(v.LogFrom)-1]
	spans, leave := decideLeaving(first, s.Spans, j.commits.KeepLog)
	if !leave {
		return false, nil
	}
	// LastSeq is FlushedSeq already: an ingest may raise both meanwhile.
	edit := manifest.Edit{Spans: manifest.Some(spans)}
	if err := j.store.Install(edit, nil); err != nil {
		return false, fmt.Errorf("leave the log: %w", err)
	}
	j.commits.ReleaseLog(spans[0].First.Number)
	j.commits.TrimLog()
	j.o.Collect() // files that only commits in the log referred to
	return true, nil
}
