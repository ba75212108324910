package stoat

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// flushBytes is about how many bytes of memtables one flush takes together:
// what waits in a burst becomes one run instead of several.
const flushBytes = 128 << 20

// A flush turns the oldest memtables into a run of tables of level 0. It has
// the shape of all background work: it writes new files, then one edit of the
// manifest makes them live and says from where the log is still needed, then
// a new view shows them in place of the memtables.

// flushStep flushes what waits. It asks to be called again by being woken, or for
// when it is calmer; in a pause it first marks the end of the log. That would cost
// a write for each commit, were it not left to a pause.
func (d *DB) flushStep() (time.Duration, error) {
	if now, _ := d.background.quiet.calm(); now != busy {
		d.commits.mark()
	}
	for {
		due, err := d.flushNext()
		if err != nil {
			d.room.rests(flushRests)
			return 0, err
		}
		if !due {
			again, err := d.idleFlush()
			retry := &d.background.idle.retry
			if err == nil {
				*retry = 0
				return again, nil
			}
			d.room.rests(flushRests)
			d.room.flushFailed(err)
			// Nobody waits for it, and a commit or more room wakes the flusher.
			*retry = min(max(patientRetryMax, 2**retry), idleRetryMax)
			return *retry, nil
		}
	}
}

// flushNext flushes what waits at this moment, and reports whether anything did.
func (d *DB) flushNext() (due bool, err error) {
	v := d.view.Load()
	from := d.flushable(v)
	if from == len(v.tables) {
		return false, nil
	}
	d.admission.begin()
	started, bytes := time.Now(), bytesOf(v.tables[from:])
	err = d.flush(v, from)
	d.admission.end(bytes, time.Since(started), err)
	if err != nil {
		d.backgroundFailed(err)
	}
	return true, err
}

// flushable returns the index in v.tables from which on memtables can be
// flushed: they take no writes any more and everything in them is visible, so
// that no table holds what a failed sync may yet take back.
func (d *DB) flushable(v *view) int {
	visible, bytes := d.lastVersion(), int64(0)
	if mutant.On(mutant.FlushUnpublished) {
		visible = base.SeqNumMax
	}
	from := len(v.tables)
	for from > 1 && v.tables[from-1].LastSeq() <= visible {
		if bytes += v.tables[from-1].Bytes(); bytes > flushBytes && from < len(v.tables) {
			break
		}
		from--
	}
	return from
}

// flush turns v.tables[from:], the oldest memtables, into tables.
func (d *DB) flush(v *view, from int) error {
	started := time.Now()
	flushed := v.tables[from:]
	d.at(pointPicked)
	result, values, err := d.writeRun(flushed)
	if err != nil && !mutant.On(mutant.SwallowFlushError) {
		d.removeOutput(result)
		values.abandon()
		return fmt.Errorf("flush: %w", err)
	}
	if part, known := values.sample.part(); known {
		d.admission.gauge.learn(part)
	}
	edit := manifest.Edit{
		AddTables:  result.Tables,
		AddValues:  values.made,
		FlushedSeq: manifest.Some(flushed[0].LastSeq()),
		LastSeq:    manifest.Some(flushed[0].LastSeq()),
	}
	first := v.logFrom[from-1]
	l := d.log.Load()
	if l != nil && first != (base.SegmentRef{}) {
		edit.Spans = manifest.Some([]base.LogSpan{{First: first}})
	}
	if mutant.On(mutant.FlushedTooFar) {
		edit.FlushedSeq.Value++
	}
	if mutant.On(mutant.EarlyRelease) && edit.Spans.Set {
		_ = l.Release(first.Number) // the mutant's own
	}
	if err := d.install(edit, func(v view) view { return v.without(len(flushed)) }); err != nil {
		d.removeOutput(result)
		values.abandon()
		return fmt.Errorf("flush: %w", err)
	}
	d.discard(flushedGarbage(v, from))
	d.work.flushed(result, values.bytes(), time.Since(started))
	d.emit(FlushDone{Memtables: len(flushed), Tables: len(result.Tables), Values: len(values.made),
		Bytes: result.BytesWritten + values.bytes(), Took: time.Since(started)})
	if edit.Spans.Set {
		if err := l.Release(first.Number); err != nil {
			d.emit(Warning{What: "a log file that is not needed could not be removed", Err: err})
		}
	}
	d.background.compactor.wake()
	d.wakeCollector() // files that only the memtables referred to
	return nil
}

// halvesMin is the size of a flush that two goroutines do, a half of the keys
// each. Nearly all of the time goes into writing to pages that the system has to
// find first, and one goroutine at a time writes to a file.
// Where memtables are small, so is what is worth it.
const halvesMin = 8 << 20

// writeRun writes memtables as a new run of level 0, and their longer values into
// the files of the placement that it returns, also beside an error.
func (d *DB) writeRun(memtables []*memtable.Table) (compact.Result, *placement, error) {
	version := d.manifest.State().Version
	size := int64(0)
	for _, t := range memtables {
		size += t.DataBytes()
	}
	job := d.newJob(nil)
	if s := job.Rules.Snapshots; mutant.On(mutant.FlushUnpublished) {
		s[len(s)-1] = max(s[len(s)-1], memtables[0].LastSeq())
	}
	job.Deletions = retainedDeletions(memtables, job.Rules.Snapshots)
	job.Level, job.Run, job.CreatedMs = 0, version.NextRun(), d.nowMs()
	job.Filter = filter.NewBuilder(uint64(entriesOf(memtables)))
	job.Writer.Compression = d.opts.Compression.ofTables(0)
	cuts := compact.CutsOfFlush(version, d.shape(busy), size)
	job.Splits, job.TableSize, job.SplitMin = cuts.Splits, cuts.TableSize, cuts.SplitMin

	var halves []compact.Job
	middle, err := d.middle(memtables, size, cuts.Splits)
	if err != nil {
		return compact.Result{}, &placement{db: d}, err
	}
	if halves = append(halves, job); middle != nil {
		halves = append(halves, job)
		halves[0].To, halves[1].From = middle, middle
	}
	placements := make([]placement, len(halves))
	for i := range halves {
		p := &placements[i]
		p.db, p.sample.every = d, 1+entriesOf(memtables)/replacedSamples
		halves[i].Place = p.place
		for _, t := range memtables {
			it := new(memtable.Iter)
			it.Init(t, false)
			defer it.Close()
			halves[i].Sources = append(halves[i].Sources, it)
		}
	}
	result, err := compact.RunParts(halves)
	all := &placements[0]
	for i := range placements {
		if err == nil {
			err = placements[i].finish()
		} else {
			_ = placements[i].close() // the file will be removed
		}
		if i > 0 {
			all.add(&placements[i])
		}
	}
	return result, all, err
}

// middle returns the key at which a flush of so many bytes is cut in two, or nil.
// That is one of the splits, if there are any.
func (d *DB) middle(memtables []*memtable.Table, size int64, splits [][]byte) ([]byte, error) {
	if size < min(halvesMin, d.opts.MemtableSize/4) || d.driver != nil {
		return nil, nil
	}
	largest := slices.MaxFunc(memtables, func(a, b *memtable.Table) int { return cmp.Compare(a.DataBytes(), b.DataBytes()) })
	middle, err := largest.Middle()
	if err != nil || len(splits) == 0 {
		return middle, err
	}
	i, _ := slices.BinarySearchFunc(splits, middle, bytes.Compare)
	return splits[min(i, len(splits)-1)], nil
}

// retainedDeletions returns the range deletions of memtables that snapshots see.
func retainedDeletions(memtables []*memtable.Table, snapshots []base.SeqNum) *rangedel.List {
	var lists []*rangedel.List
	for _, t := range memtables {
		if t.HasDeletions() {
			lists = append(lists, t.RetainDeletions(snapshots, false))
		}
	}
	return rangedel.Merge(lists...)
}

const (
	// idleFlushMin is the size of a memtable that is worth flushing for no
	// other reason than that there is time; or an eighth of a full one. What was
	// written apart counts as well: what it replaced is not known to be garbage
	// before.
	idleFlushMin = 1 << 20
	// idleLogMin is the size of the segments of a log that is worth flushing
	// less, since only then they can go.
	idleLogMin = 1 << 20
	// closeFlushMin is the size of one that Close flushes, so that the next
	// Open has little to replay.
	closeFlushMin = 256 << 10
	// closeSpansMax is how many openings of the database may have left their
	// part of the log before Close flushes a memtable of any size.
	closeSpansMax = 4
)

// idleFlush flushes the memtable that takes the writes when there have been
// none for a while. Then the log becomes small, and idle merging begins. It does
// not wait if deletions hide much, nor, on a disk that is low, if there is much to
// flush, and if there is little, flushes that in the end: not before merges have
// come to rest, or tables of a few deletions would take the room from those. A pause
// is enough where one is used to merge level 0: that is done once, for all that was
// written. A trickle of commits keeps nothing in memory for ever, either.
func (d *DB) idleFlush() (again time.Duration, err error) {
	idle := &d.background.idle
	idle.dozing.Store(true) // from here on a commit wakes the flusher
	l, scarce := d.log.Load(), d.room.scarce()
	now, calmer := d.background.quiet.calm()
	rest := now == idling || scarce
	deletions, again := d.deletionsDue(rest)
	trickles := now != idling && l != nil && d.trickles(l)
	worthIt := deletions || trickles || l != nil && d.worthIdleFlush(l)
	merges := now == pausing && d.flushesFirst() && d.deep()
	if now != idling && !deletions && !(scarce && worthIt) && !trickles && !merges {
		idle.dozing.Store(false)
		d.room.rests(flushRests)
		return calmer, nil
	}
	if rest {
		d.rest(l)
	}
	if !worthIt {
		if !scarce || l == nil || d.view.Load().tables[0].Len() == 0 {
			d.room.rests(flushRests)
			return again, nil
		}
		if !d.room.mergesRest() {
			return again, nil // they wake the flusher when they do
		}
	}
	if d.commits.poisoned() != nil {
		return 0, nil // what ended the commits has been told
	}
	// Who only pauses goes on with a log as it was.
	if err := d.putAside(rest || deletions || trickles); err != nil {
		err = fmt.Errorf("flush: %w", err)
		d.backgroundFailed(err)
		return 0, err
	}
	if v := d.view.Load(); len(v.tables) > 1 {
		if d.flushable(v) < len(v.tables) { // or who publishes the rest wakes the flusher
			d.background.flusher.wake()
		}
		return 0, nil
	}
	did, err := d.leaveLog(l)
	if err != nil {
		d.backgroundFailed(err)
	} else if !did {
		d.room.rests(flushRests)
	}
	return 0, err
}

// A trickle is what little is committed when a database is never idle. What was
// written before that and has expired since, or is deleted, may never come to
// tables, where it would be found out, and the log keeps it.
type trickle struct {
	table     *memtable.Table // which takes the writes
	committed int64           // how many bytes had been when it was looked last
	at        int64           // of monotonic
}

const (
	// trickleEvery is how often it is looked how much was committed.
	trickleEvery = time.Minute
	// trickleMax is how much that may be for the log to rest, and trickleShare how
	// many times as much a memtable must hold to be flushed: one that is filled
	// steadily, however slowly, is left alone for hours.
	trickleMax   = 64 << 10
	trickleShare = 256
)

// passed returns how much was committed since the look before, if t took it all and
// it is time for another. It is the flusher's.
func (k *trickle) passed(t *memtable.Table, committed int64) (bytes int64, known bool) {
	now, before := monotonic(), *k
	if known = t == k.table; known && now-k.at < int64(trickleEvery) {
		return 0, false
	}
	*k = trickle{table: t, committed: committed, at: now}
	return committed - before.committed, known
}

// trickles reports whether the memtable that takes the writes is to be flushed
// because hardly anything is added to what it holds. The log gives back what it
// keeps for more.
func (d *DB) trickles(l *log.Writer) bool {
	t := d.view.Load().tables[0]
	bytes, known := d.background.trickle.passed(t, d.commits.counts.bytes.Load())
	if known && bytes <= trickleMax {
		d.restLog(l)
	}
	return known && t.Bytes() >= max(d.flushMin(), trickleShare*bytes)
}

// rest gives back what is kept for times with more to write. Before the first
// commit, when there is no log yet, what an earlier opening has left to do is done
// now.
func (d *DB) rest(l *log.Writer) {
	if l == nil {
		d.background.compactor.wake()
		d.wakeCollector()
	} else {
		d.restLog(l)
	}
	d.memory.rest()
}

// flushesFirst reports whether so much waits in memory that a merge of level 0
// in a pause, which would rewrite what is below once more for it, comes after it
// was flushed.
func (d *DB) flushesFirst() bool {
	v := d.view.Load()
	return len(v.tables) > 1 || v.tables[0].Bytes() >= d.opts.MemtableSize/8
}

// deep reports whether there are as many runs of level 0 as a pause is used to
// merge.
func (d *DB) deep() bool { return d.manifest.State().Version.Runs() >= pausingRuns }

// flushMin is how much is worth a flush of its own.
func (d *DB) flushMin() int64 { return min(idleFlushMin, d.opts.MemtableSize/8) }

// worthIdleFlush reports whether enough is in memory, or in the log, for a flush
// that nothing else asks for.
func (d *DB) worthIdleFlush(l *log.Writer) bool {
	least := d.flushMin()
	return d.view.Load().tables[0].Bytes() >= least || d.commits.apart.Load() >= least || l.NeededBytes() >= idleLogMin
}

// restLog deletes what the log keeps for times with more to write.
func (d *DB) restLog(l *log.Writer) {
	if err := l.Rest(); err != nil {
		d.emit(Warning{What: "a log file that is not needed could not be removed", Err: err})
	}
}

// leaveLog gives up the segments before the one that rotate moved to, although
// there was nothing to flush: all that was committed before is in tables. It
// reports whether there were any.
func (d *DB) leaveLog(l *log.Writer) (did bool, err error) {
	v := d.view.Load()
	first := v.logFrom[len(v.logFrom)-1]
	if first == (base.SegmentRef{}) {
		return false, nil // what recovery found is not in tables
	}
	if spans := d.manifest.State().Spans; len(spans) == 1 && spans[0].First == first {
		return false, nil // that was done before
	}
	edit := manifest.Edit{
		LastSeq: manifest.Some(d.manifest.State().FlushedSeq),
		Spans:   manifest.Some([]base.LogSpan{{First: first}}),
	}
	if err := d.install(edit, nil); err != nil {
		return false, fmt.Errorf("leave the log: %w", err)
	}
	if err := l.Release(first.Number); err != nil {
		d.emit(Warning{What: "a log file that is not needed could not be removed", Err: err})
	}
	d.restLog(l)
	return true, nil
}

// flushSoon makes the flusher look, if there may be something for it to do.
func (d *DB) flushSoon() {
	if len(d.view.Load().tables) > 1 || d.background.idle.dozing.Load() {
		d.background.flusher.wake()
	}
}

// rotate puts an empty memtable before the one that takes the writes, which
// can then be flushed, and moves the log to a small segment.
func (d *DB) rotate() error { return d.putAside(true) }

// putAside is rotate, which may leave the log where it is.
func (d *DB) putAside(shrink bool) error {
	c := &d.commits
	c.build.Lock()
	defer c.build.Unlock()
	if err := c.poisoned(); err != nil {
		return err
	}
	if d.log.Load() == nil {
		if err := c.startLog(); err != nil {
			return err
		}
	}
	l := d.log.Load()
	if shrink {
		if err := l.Shrink(); err != nil {
			if l.Err() != nil {
				return c.fail(err)
			}
			return err
		}
	}
	switch v := d.view.Load(); {
	case v.tables[0].Len() > 0:
		d.add(l.Current(), d.memory.newTable(0))
		c.apart.Store(0)
	case len(v.tables) == 1:
		// Nothing in memory needs what the log has so far.
		d.change(func(v view) view {
			v.logFrom = []base.SegmentRef{l.Current()}
			return v
		})
	}
	return nil
}

// finalFlush is Close's: it flushes what the next Open would take long to
// replay. The log has it all, so that an error is no loss.
func (d *DB) finalFlush() {
	v := d.view.Load()
	_, bytes := v.waiting()
	bytes += v.tables[0].Bytes()
	spans := len(d.manifest.State().Spans)
	if bytes < closeFlushMin && spans <= closeSpansMax || v.tables[0].Len() == 0 && len(v.tables) == 1 {
		return
	}
	err := d.rotate()
	for v := d.view.Load(); err == nil && len(v.tables) > 1; v = d.view.Load() {
		err = d.flush(v, d.flushable(v))
	}
	if err != nil {
		d.emit(Warning{What: "what is in memory was left in the log", Err: err})
	}
}
