package jobs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// flushBytes is about the number of bytes of memtables that one flush takes. So a
	// burst becomes one run instead of several.
	flushBytes = 128 << 20
	// halvesMin is the size in bytes of a flush that two goroutines do, a half of the keys
	// each. Nearly all of the time goes into writing to pages that the system has to find
	// first. Only one goroutine at a time writes to a file.
	halvesMin = 8 << 20
	// closeFlushMin is the size in bytes of memtables that Close flushes, so that the
	// next Open has little to replay.
	closeFlushMin = 256 << 10
	// closeSpansMax is the number of spans of the log, one for each opening, beyond which
	// Close flushes memtables of any size.
	closeSpansMax = 4
)

// FlushStep is the step of the flusher: it flushes what waits. In a pause it first
// marks the end of the log, which costs a write.
func (j *Jobs) FlushStep() (time.Duration, error) {
	defer j.space.Step()()
	if now, _ := j.o.Activity.Load(); now != work.Busy {
		j.commits.Mark()
	}
	for {
		due, err := j.FlushNext()
		if err != nil {
			j.space.WriteFailed(err)
			j.space.Rests(space.Flushes)
			if errors.Is(err, vfs.ErrNoSpace) && j.store.EditErr() == nil {
				j.easeFlush()
			}
			return 0, err
		}
		if due {
			continue
		}
		again, err := j.idleFlush()
		if err == nil {
			j.idleRetry = 0
			return again, nil
		}
		j.space.Rests(space.Flushes)
		j.space.FlushFailed(err)
		return j.idleRetry.next(), nil
	}
}

// easeFlush prepares the next attempt of a flush that found no room. It gives up what the
// log keeps for feeds, or for later. The next attempt also takes all newer memtables: their
// deletions may hide most of what the oldest would write.
func (j *Jobs) easeFlush() {
	_, _ = j.leaveLog() // the error of the flush says more
	j.commits.TrimLog()
	j.flushAll = true
	fill := j.store.Fill()
	in := easeInputs{fill: fill, least: j.flushMin(), spare: j.throttle.Spare(fill)}
	in.load, _ = j.o.Activity.Load()
	if decideEase(in) {
		_ = j.commits.Rotate(false) // an empty memtable stays where it is
	}
}

// easeTablesMax is how many memtables may wait before a flush that finds no room leaves a
// small active memtable alone. Each of them makes reads slower.
const easeTablesMax = 16

// easeInputs is what decides whether a flush that found no room takes the active memtable.
type easeInputs struct {
	fill  state.Fill
	least int64 // bytes that are worth a flush
	spare int64 // bytes that may wait besides, while commits fill another memtable
	load  work.Load
}

// decideEase decides whether a flush that found no room takes the active memtable too. The
// next commits then fill another one. So the active one must be large enough, and leave
// memory for that. In an idle database only the number of memtables counts.
func decideEase(in easeInputs) bool {
	if in.load == work.Idle {
		return in.fill.Waiting < easeTablesMax
	}
	return in.fill.ActiveBytes >= in.least && in.fill.ActiveBytes <= in.spare
}

// FlushNext flushes what waits at this moment, and reports whether anything did.
func (j *Jobs) FlushNext() (due bool, err error) {
	v := j.store.View()
	most := int64(flushBytes)
	if j.flushAll {
		most = math.MaxInt64
	}
	from := flushable(v, j.store.Visible(), most)
	if from == len(v.Memtables) {
		return false, nil
	}
	j.throttle.FlushBegins()
	started, size := time.Now(), v.BytesFrom(from)
	err = j.flush(v, from)
	j.throttle.FlushEnded(size, time.Since(started), err)
	j.flushAll = j.flushAll && err != nil
	if err != nil {
		j.commits.JobFailed(err)
	}
	return true, err
}

// flushable returns the index in v.Memtables from which on memtables can be
// flushed: they take no writes any more and readers see everything in them. So no
// table holds what a failed sync may take back. A flush takes about most bytes.
func flushable(v *state.View, visible base.SeqNum, most int64) int {
	if mutant.On(mutant.FlushUnpublished) {
		visible = base.SeqNumMax
	}
	size, from := int64(0), len(v.Memtables)
	for from > 1 && v.Memtables[from-1].LastSeq() <= visible {
		if size += v.Memtables[from-1].Bytes(); size > most && from < len(v.Memtables) {
			break
		}
		from--
	}
	return from
}

// flush turns v.Memtables[from:], the oldest, into a run of tables of level 0. The
// edit also says from where the log is still needed.
func (j *Jobs) flush(v *state.View, from int) error {
	started := time.Now()
	flushed := v.Memtables[from:]
	j.o.Executor.At(work.PointPicked)
	if err := j.store.EditErr(); err != nil {
		return fmt.Errorf("flush: %w", err) // the files could be neither used nor removed
	}
	run, err := j.writeRun(flushed)
	if err != nil && !mutant.On(mutant.SwallowFlushError) {
		j.abandonRun(&run)
		return fmt.Errorf("flush: %w", err)
	}
	if part, known := run.sample.part(); known {
		j.throttle.LearnReplacing(part)
	}
	j.throttle.Wrote(run.values.Bytes())
	hides := j.hiddenIn(flushed, run.result.Tables)
	j.flushHides.Store(&hides)
	edit := manifest.Edit{
		AddTables:  run.result.Tables,
		AddValues:  run.values.Made(),
		FlushedSeq: manifest.Some(flushed[0].LastSeq()),
		LastSeq:    manifest.Some(flushed[0].LastSeq()),
	}
	first := v.LogFrom[from-1]
	if j.commits.Log() != nil && first != (base.SegmentRef{}) {
		spans, _ := j.commits.KeepLog(first)
		edit.Spans, first = manifest.Some(spans), spans[0].First
	}
	if mutant.On(mutant.FlushedTooFar) {
		edit.FlushedSeq.Value++
	}
	if mutant.On(mutant.EarlyRelease) && edit.Spans.Set {
		j.commits.ReleaseLog(first.Number)
	}
	err = j.commits.SyncForFeeds()
	if err == nil {
		err = j.store.Install(edit, func(v state.View) state.View { return v.WithoutOldest(len(flushed)) })
	}
	if err != nil {
		j.abandonRun(&run)
		return fmt.Errorf("flush: %w", err)
	}
	j.store.Discard(v.FlushedMemtables(from))
	j.flushed(&run, len(flushed), time.Since(started))
	if edit.Spans.Set {
		j.commits.ReleaseLog(first.Number)
	}
	if j.space.Scarce() {
		j.commits.TrimLog()
	}
	j.o.Compact()
	j.o.Collect() // files that only the memtables referred to
	return nil
}

// flushed counts and reports a flush.
func (j *Jobs) flushed(r *run, memtables int, took time.Duration) {
	written := r.result.BytesWritten + r.values.Bytes()
	j.Counts.Flushes.Add(1)
	j.Counts.FlushedBytes.Add(written)
	j.Counts.FlushTime.Add(took)
	j.o.Report(event.FlushDone{Memtables: memtables, Tables: len(r.result.Tables), Values: len(r.values.Made()),
		Bytes: written, Took: took})
}

// A run is what a flush has written: tables, value files, and what it learned of
// the values.
type run struct {
	result compact.Result
	values *place.Writer
	sample *replacedSample
}

// abandonRun deletes the files of a flush that failed.
func (j *Jobs) abandonRun(r *run) {
	j.removeOutput(r.result)
	r.values.Abandon()
}

// A flushPart writes the values of a half of a flush.
type flushPart struct {
	*place.Writer
	sample replacedSample
}

// Place is compact.Job.Place.
func (p *flushPart) Place(e *base.Entry) (manifest.ValueRef, bool, error) {
	ref, apart, err := p.Writer.Place(e)
	if apart && err == nil {
		p.sample.see(e.Key)
	}
	return ref, apart, err
}

// writeRun writes memtables as a new run of level 0, and their longer values to
// value files. Beside an error it returns what it has written.
func (j *Jobs) writeRun(memtables []*memtable.Table) (run, error) {
	job, cuts := j.flushJob(memtables)
	jobs, err := halve(job, memtables, cuts, j.splitMin())
	parts := make([]*flushPart, max(1, len(jobs)))
	for i := range parts {
		parts[i] = &flushPart{Writer: place.NewWriter(j.o.Place), sample: replacedSample{
			store: j.store, hashSeed: j.o.HashSeed, every: 1 + entriesOf(memtables)/sampleSize}}
	}
	out := run{values: parts[0].Writer, sample: &parts[0].sample}
	if err != nil {
		return out, err
	}
	for i := range jobs {
		jobs[i].Place, jobs[i].PlaceNew = parts[i].Place, parts[i].Place
		for _, t := range memtables {
			it := new(memtable.Iter)
			it.Init(t, false)
			defer it.Close()
			jobs[i].Sources = append(jobs[i].Sources, it)
		}
	}
	out.result, err = compact.RunParts(jobs)
	for i, p := range parts {
		if err == nil {
			err = p.Finish()
		} else {
			_ = p.Close() // the file will be removed
		}
		if i > 0 {
			out.values.Add(p.Writer)
			out.sample.add(&p.sample)
		}
	}
	return out, err
}

// flushJob returns the job of a flush, without sources, and where its tables end.
func (j *Jobs) flushJob(memtables []*memtable.Table) (compact.Job, compact.FlushCuts) {
	version := j.store.Version()
	job := j.newJob()
	if s := job.Rules.Snapshots; mutant.On(mutant.FlushUnpublished) {
		s[len(s)-1] = max(s[len(s)-1], memtables[0].LastSeq())
	}
	job.Rules.Above = j.partialAbove(nil)
	job.Deletions = memtable.RetainDeletions(memtables, job.Rules.Snapshots)
	job.Level, job.Run, job.CreatedMs = 0, version.NextRun(), j.store.Now()+j.store.StoodMs()
	job.Filter = filter.NewBuilder(uint64(entriesOf(memtables)))
	job.Codec = j.codecs(0)
	cuts := compact.CutsOfFlush(version, j.Shape(work.Busy, j.store.Horizon()), dataOf(memtables))
	job.Splits, job.TableSize, job.SplitMin = cuts.Splits, cuts.TableSize, cuts.SplitMin
	return job, cuts
}

// splitMin returns the size in bytes from which a flush is done in two halves. It is
// negative if no flush is. With small memtables, smaller flushes are worth it.
func (j *Jobs) splitMin() int64 {
	if j.o.Executor.Width(2) < 2 {
		return -1
	}
	return min(halvesMin, j.o.MemtableSize/4)
}

// halve cuts a flush in two if it has splitMin bytes. It cuts at a key in the middle, or at
// the split next to it, if there are any.
func halve(job compact.Job, memtables []*memtable.Table, cuts compact.FlushCuts, splitMin int64) ([]compact.Job, error) {
	if splitMin < 0 || dataOf(memtables) < splitMin {
		return []compact.Job{job}, nil
	}
	largest := slices.MaxFunc(memtables, func(a, b *memtable.Table) int { return cmp.Compare(a.DataBytes(), b.DataBytes()) })
	middle, err := largest.Middle()
	if err != nil {
		return nil, err
	}
	if n := len(cuts.Splits); n > 0 {
		i, _ := slices.BinarySearchFunc(cuts.Splits, middle, bytes.Compare)
		middle = cuts.Splits[min(i, n-1)]
	}
	if middle == nil {
		return []compact.Job{job}, nil
	}
	lower, upper := job, job
	lower.To, upper.From = middle, middle
	return []compact.Job{lower, upper}, nil
}

// FinalFlush is the flush of Close: it flushes what the next Open would take long to
// replay. The log has all of it, so an error loses nothing.
func (j *Jobs) FinalFlush() {
	v := j.store.View()
	fill, spans := v.Fill(), j.commits.SpansToReplay()
	if fill.WaitingBytes+fill.ActiveBytes < closeFlushMin && spans <= closeSpansMax ||
		v.Memtables[0].Len() == 0 && fill.Waiting == 0 {
		return
	}
	j.flushMemory()
}

// openSpansMax is the number of spans of the log beyond which Open flushes memtables of any
// size: programs that end without Close within a second would pile them up.
const openSpansMax = 16

// FirstFlush is the flush of Open, once the log is durable.
func (j *Jobs) FirstFlush() {
	v := j.store.View()
	if j.commits.SpansToReplay() > openSpansMax && (len(v.Memtables) > 1 || v.Memtables[0].Len() > 0) {
		j.flushMemory()
	}
}

// flushMemory flushes all memtables.
func (j *Jobs) flushMemory() {
	err := j.commits.Rotate(true)
	for v := j.store.View(); err == nil && len(v.Memtables) > 1; v = j.store.View() {
		err = j.flush(v, flushable(v, j.store.Visible(), flushBytes))
	}
	if err != nil {
		j.o.Report(event.Warning{What: "what is in memory was left in the log", Err: err})
	}
}

// entriesOf returns how many entries memtables have.
func entriesOf(tables []*memtable.Table) (entries int) {
	for _, t := range tables {
		entries += t.Len()
	}
	return entries
}

// dataOf returns the size of the keys and values of memtables, in bytes.
func dataOf(tables []*memtable.Table) (bytes int64) {
	for _, t := range tables {
		bytes += t.DataBytes()
	}
	return bytes
}
