package collect

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
)

// Run collects what a batch says is collected now, unless stop returns an error.
// known is the same for all batches of one caller. The caller holds Collecting.
//
// Each file is exchanged as soon as its copy is durable, so a collection of many
// needs no more space than one of few.
func (c *Collector) Run(b Batch, known *LiveSet, stop func() error) error {
	r := run{c: c, known: known, stop: stop, started: time.Now()}
	c.o.Executor.At(work.PointPicked)
	err := c.store.EditErr() // copies could be neither used nor removed
	if err == nil {
		err = r.collect(&b)
	}
	if r.done.Files > 0 {
		r.done.Took = time.Since(r.started)
		c.Counts.Collections.Add(int64(r.done.Files))
		c.Counts.CollectedBytes.Add(r.done.OutputBytes)
		c.Counts.Time.Add(r.done.Took)
		c.o.Throttle.Collected(r.done.InputBytes-r.done.OutputBytes, r.done.InputBytes, r.started)
		c.o.Report(r.done)
	}
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	return nil
}

// A run is a collection under way.
type run struct {
	c       *Collector
	known   *LiveSet
	stop    func() error
	started time.Time

	mu lock.Mutex[lock.Copies]
	// Guarded by mu.
	queue  []*manifest.ValueFile // to be rewritten
	done   event.CollectionDone
	failed error
}

// width returns how many files are rewritten at once, each with two megabytes of
// buffers. Mostly it is two, so that the reading of one overlaps with the writing of
// another. It is one where space is scarce. It is also one on two processors, so that one
// is left to readers. The exception is a time when commits are slowed down until there is
// less garbage.
func (c *Collector) width() int {
	if c.o.Space.Scarce() || runtime.GOMAXPROCS(0) <= 2 && !c.o.Throttle.Collecting() {
		return 1
	}
	return c.o.Executor.Width(2)
}

func (r *run) collect(b *Batch) error {
	v := r.c.store.Version()
	var dead manifest.Edit
	var gone []state.Obsolete
	for _, choice := range b.now {
		old, ok := v.Value(choice.Num)
		invariant.Check(ok, "value file %d is to be collected and not there", choice.Num)
		if !choice.Drop {
			r.queue = append(r.queue, old.ValueFile)
			continue
		}
		dead.DropValues = append(dead.DropValues, old.Num)
		gone = append(gone, state.ObsoleteValues(old.ValueFile))
		r.done.InputBytes += old.Size
	}
	if len(gone) > 0 {
		if err := r.exchange(dead, gone); err != nil {
			r.done.InputBytes = 0
			return err
		}
		r.done.Files = len(gone)
	}
	if len(r.queue) == 0 {
		return nil
	}
	if err := r.findLive(v, b.next); err != nil {
		return err
	}
	defer r.known.forget(r.queue)
	r.c.o.Executor.Parallel(slices.Repeat([]func(){r.rewriteFiles}, max(1, min(r.c.width(), len(r.queue))))...)
	return r.failed
}

// findLive finds out what is live in the files of the queue. If the LiveSet still holds
// for some of them, only those stay in the queue. If it holds for none, a walk makes a new
// one, which also covers the files in next.
//
// Files to which a damaged table refers leave the queue, because it is unknown what is live
// in them. So do files for which memory is short. A later batch may have those that left.
func (r *run) findLive(v *manifest.Version, next []values.Choice) error {
	if known := r.known.of(r.queue, v); len(known) > 0 {
		r.queue = known
		return nil
	}
	var ahead []*manifest.ValueFile
	for _, choice := range next {
		if f, ok := v.Value(choice.Num); ok && !choice.Drop {
			ahead = append(ahead, f.ValueFile)
		}
	}
	q := r.c.o.Quarantine
	r.known.live = nil
	for len(r.queue) > 0 {
		files := slices.Concat(r.queue, ahead)
		live, err := r.c.liveIn(files, r.c.LiveMax(), r.stop)
		if err == nil {
			r.known.live = live
			r.queue = slices.DeleteFunc(r.queue, func(f *manifest.ValueFile) bool { return live[f.Num] == nil })
			return nil
		}
		others := q.NoteReferred(files, r.c.store.Version(), err)
		if len(others) == len(files) {
			return err
		}
		r.queue, ahead = slices.DeleteFunc(r.queue, q.HasValues), slices.DeleteFunc(ahead, q.HasValues)
		r.c.o.Commits.JobFailed(fmt.Errorf("collect: %w", err))
	}
	return nil
}

// rewriteFiles rewrites files of the queue until it is empty, or until a rewrite fails. A
// file that cannot be read goes into quarantine, and the others follow.
func (r *run) rewriteFiles() {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 || r.failed != nil {
			r.mu.Unlock()
			return
		}
		old := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		err := fault.Guard(func() error { return r.rewrite(old) })
		if f, ok := r.c.store.Version().Value(old.Num); ok {
			r.c.o.Space.CopyEnded(f.Live, err)
		}
		if r.c.o.Quarantine.NoteValues(old, err) {
			r.c.o.Commits.JobFailed(fmt.Errorf("collect: %w", err))
		} else if err != nil {
			r.mu.Lock()
			r.failed = errors.Join(r.failed, err)
			r.mu.Unlock()
		}
	}
}

// rewrite copies what is live of a file into a new one, which takes its place.
func (r *run) rewrite(old *manifest.ValueFile) error {
	live := r.known.live[old.Num]
	if err := live.complete(); err != nil {
		return err
	}
	gone := []state.Obsolete{state.ObsoleteValues(old)}
	made, err := r.c.rewriteFile(old, live, r.stop)
	if errors.Is(err, values.ErrNothingLive) && r.c.unreferenced(old.Num) {
		// A compaction has dropped the last references since the file was chosen.
		if err = r.exchange(manifest.Edit{DropValues: []base.FileNum{old.Num}}, gone); err == nil {
			r.count(old.Size, 0)
		}
		return err
	}
	if err != nil {
		return err
	}
	r.c.store.LoadValues(made, old)
	if err = r.exchange(manifest.Edit{AddValues: []*manifest.ValueFile{made}}, gone); err != nil {
		r.c.store.DeleteValues(made.File)
	} else {
		r.count(old.Size, made.Size)
	}
	return err
}

// unreferenced reports whether no table refers to a value file.
func (c *Collector) unreferenced(n base.FileNum) bool {
	f, ok := c.store.Version().Value(n)
	return ok && f.Live == 0
}

// exchange installs an edit, and discards the files that it drops or replaces.
func (r *run) exchange(edit manifest.Edit, gone []state.Obsolete) error {
	if err := r.c.store.Install(edit, nil); err != nil {
		return err
	}
	r.c.store.Discard(gone)
	return nil
}

// count counts a file of old bytes that one of made bytes has replaced; 0 is none.
func (r *run) count(old, made int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Files++
	r.done.InputBytes += old
	r.done.OutputBytes += made
}

// rewriteFile writes what is live of a file into a new one. Nothing is left of that
// after an error, nor after a fault in the mapping of the old one.
func (c *Collector) rewriteFile(old *manifest.ValueFile, live *liveValues, stop func() error) (made *manifest.ValueFile, err error) {
	source, err := c.store.Files().OpenValues(old)
	if err != nil {
		return nil, err
	}
	num, out, err := c.store.NewValueFile()
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	defer func() {
		if err = errors.Join(err, out.Close(), source.Close()); err != nil || made == nil {
			made = nil
			c.store.RemoveFile(base.ValueName(num))
		}
	}()
	props, err := values.Rewrite(values.RewriteJob{
		Source: source, Out: out, Salt: rand.Uint64(), Live: live.all(), Stop: stop,
	})
	if err != nil {
		return nil, err
	}
	return place.FileOf(props, num), nil
}
