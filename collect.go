package stoat

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/values"
)

// Collection gives back the space of values that no table refers to any more.
// It rewrites a value file under the same identity, so that neither tables nor
// pointers change: one edit of the manifest exchanges the file. Nothing passes
// the write path, so that no collection can bring a deleted key back.
//
// Collection and compaction go on side by side. What a collection finds to be
// live in the tables of one version can only become less: a compaction takes
// references along or away, and no flush adds any, since files that memtables
// refer to are left alone. What was copied and is garbage by the time that the
// file is exchanged counts as garbage of the new one.

// A haul is value files with garbage: those that are collected now, between two
// looks at what else there is to do, and those that will probably follow.
type haul struct {
	now, next []values.Choice
	copied    uint64 // by those of now
	memory    uint64 // about what it takes to know what is live in all of them
	idle      bool   // it is worth doing only while nobody commits
}

const (
	// collectBytes is about how much one collection copies.
	collectBytes = 64 << 20
	// nextFiles bounds how many files are chosen that are not collected now.
	nextFiles = 128
)

// full reports whether there are enough, with so much memory for what is live.
func (h *haul) full(most int) bool {
	return h.copied >= collectBytes && (h.memory >= uint64(most) || len(h.next) >= nextFiles)
}

func (h *haul) add(c values.Choice, f manifest.LiveValues) {
	if h.copied < collectBytes {
		h.now = append(h.now, c)
		h.copied += c.Copy
	} else {
		h.next = append(h.next, c)
	}
	h.memory += uint64(float64(f.Values) * float64(c.Copy) / float64(max(f.Bytes, 1)) * liveEstimate)
}

// without leaves the files out that some function tells.
func (h haul) without(out func(values.Choice) bool) haul {
	h.now, h.next = slices.DeleteFunc(h.now, out), slices.DeleteFunc(h.next, out)
	return h
}

// collect collects what is to be collected now, unless stop returns an error.
// known is the same for all hauls of one caller. The caller holds collecting.
//
// Each file is exchanged as soon as its copy is durable, so that a collection
// of many needs no more space than one of few.
func (d *DB) collect(h haul, known *survey, stop func() error) error {
	c := collection{db: d, known: known, stop: stop, started: time.Now()}
	if h.idle {
		c.stop = c.yielding(stop)
	}
	d.at(pointPicked)
	err := c.run(h)
	if c.done.Files > 0 {
		c.done.Took = time.Since(c.started)
		d.work.collected(c.done.Files, c.done.OutputBytes, c.done.Took)
		if !c.napped.Load() { // or it says nothing of how fast garbage can be collected
			d.admission.collected(c.done.InputBytes-c.done.OutputBytes, c.done.InputBytes, c.started)
		}
		d.emit(c.done)
	}
	if err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	return nil
}

// A collection is a collect under way.
type collection struct {
	db      *DB
	known   *survey
	stop    func() error
	started time.Time
	napped  atomic.Bool // others came first at some time

	mu     sync.Mutex // guards what follows
	queue  []*manifest.ValueFile
	done   CollectionDone
	failed error
}

// collectors returns how many files are rewritten at once, each with two megabytes of
// buffers: mostly two, so that the reading of one overlaps with the writing and the
// sync of another. On a disk that is low it is one, which needs less room; and on two
// processors, of which two would leave none to readers, unless writers are slowed down
// until there is less garbage.
func (d *DB) collectors() int {
	if d.room.scarce() || runtime.GOMAXPROCS(0) <= 2 && !d.admission.gauge.over.Load() {
		return 1
	}
	return 2
}

func (c *collection) run(h haul) error {
	v := c.db.manifest.State().Version
	var dead manifest.Edit
	var gone []relic
	for _, choice := range h.now {
		old, ok := v.Value(choice.Num)
		invariant.Check(ok, "value file %d is to be collected and not there", choice.Num)
		if !choice.Drop {
			c.queue = append(c.queue, old.ValueFile)
			continue
		}
		dead.DropValues = append(dead.DropValues, old.Num)
		gone = append(gone, relicOfValues(old.ValueFile))
	}
	if len(gone) > 0 {
		if err := c.exchange(dead, gone, 0); err != nil {
			return err
		}
	}
	if len(c.queue) == 0 {
		return nil
	}
	if err := c.findLive(v, h.next); err != nil {
		return err
	}
	defer c.known.forget(c.queue)
	if c.db.driver != nil {
		c.rewriteFiles() // who drives has one thread
		return c.failed
	}
	var all sync.WaitGroup
	for range min(c.db.collectors(), len(c.queue)) {
		all.Go(c.rewriteFiles)
	}
	all.Wait()
	return c.failed
}

// collectNap is for how long each of the goroutines of a collection that can wait
// rests after each piece of its work, a megabyte of copies, while somebody commits.
const collectNap = 100 * time.Millisecond

// yielding returns stop, which then also takes a nap when somebody commits and
// nothing but idleness has asked for the collection. What is under way goes on after
// it, slowly, rather than being given up: who commits every few seconds would have
// the same copies begun over and over.
func (c *collection) yielding(stop func() error) func() error {
	return func() error {
		if err := stop(); err != nil || !c.canWait() {
			return err
		}
		c.napped.Store(true)
		nap := time.NewTimer(collectNap)
		defer nap.Stop()
		select {
		case <-c.db.background.stopped.Done():
		case <-nap.C:
		}
		return stop()
	}
}

// canWait reports whether users come first: somebody commits, nobody waits for the
// collection, and there is nothing to collect for as long as the database is busy.
// Who drives the work says himself when it is done.
func (c *collection) canWait() bool {
	d := c.db
	if now, _ := d.calm(); d.driver != nil || now == idling || d.collecting.awaited() {
		return false
	}
	return len(d.pickCollection(d.pressure(false)).now) == 0
}

// findLive makes known what is live in the files of the queue. If that is known of
// some, those will do; the others are chosen again. If it is known of none, it is
// found by a walk that looks for what is live in the next files, too.
//
// Files to which a table refers that cannot be read leave the queue: nobody knows
// what is live in them. So do those for which memory is short: they are chosen
// again.
func (c *collection) findLive(v *manifest.Version, next []values.Choice) error {
	if known := c.known.of(c.queue, v); len(known) > 0 {
		c.queue = known
		return nil
	}
	var ahead []*manifest.ValueFile
	for _, choice := range next {
		if f, ok := v.Value(choice.Num); ok && !choice.Drop {
			ahead = append(ahead, f.ValueFile)
		}
	}
	c.known.live = nil
	for len(c.queue) > 0 {
		files := slices.Concat(c.queue, ahead)
		live, err := c.db.liveIn(files, c.db.liveMax(), c.stop)
		if err == nil {
			c.known.live = live
			c.queue = slices.DeleteFunc(c.queue, func(f *manifest.ValueFile) bool { return live[f.Num] == nil })
			return nil
		}
		others := c.db.bad.referredTo(files, c.db.manifest.State().Version, err)
		if len(others) == len(files) {
			return err
		}
		c.queue, ahead = slices.DeleteFunc(c.queue, c.db.bad.has), slices.DeleteFunc(ahead, c.db.bad.has)
		c.db.backgroundFailed(fmt.Errorf("collect: %w", err))
	}
	return nil
}

// rewriteFiles exchanges files of the queue until there is none, or until it
// has failed. A file that cannot be read does not keep it from the others.
func (c *collection) rewriteFiles() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 || c.failed != nil {
			c.mu.Unlock()
			return
		}
		old := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		err := fault.Guard(func() error { return c.rewrite(old) })
		if f, ok := c.db.manifest.State().Version.Value(old.Num); ok {
			c.db.room.copied(f.Live, err)
		}
		if c.db.bad.note(old, err) {
			c.db.backgroundFailed(fmt.Errorf("collect: %w", err))
		} else if err != nil {
			c.mu.Lock()
			c.failed = errors.Join(c.failed, err)
			c.mu.Unlock()
		}
	}
}

// rewrite copies what is live of a file into a new one, which takes its place.
func (c *collection) rewrite(old *manifest.ValueFile) error {
	live := c.known.live[old.Num]
	if err := live.complete(); err != nil {
		return err
	}
	made, err := c.db.rewriteFile(old, live, c.stop)
	if errors.Is(err, values.ErrNothingLive) && c.db.unreferenced(old.Num) {
		// A compaction has let go of the rest since the file was chosen.
		return c.exchange(manifest.Edit{DropValues: []base.FileNum{old.Num}}, []relic{relicOfValues(old)}, 0)
	}
	if err != nil {
		return err
	}
	c.db.tables.LoadValues(made, old)
	err = c.exchange(manifest.Edit{AddValues: []*manifest.ValueFile{made}}, []relic{relicOfValues(old)}, made.Size)
	if err != nil {
		c.db.dropValueFile(made.File)
	}
	if mutant.On(mutant.WriteBack) {
		err = c.known.live[old.Num].writeBack(c.db)
	}
	return err
}

// unreferenced reports whether no table refers to a value file.
func (d *DB) unreferenced(n base.FileNum) bool {
	f, ok := d.manifest.State().Version.Value(n)
	return ok && f.Live == 0
}

// exchange installs an edit that lets go of files and brings so many bytes.
func (c *collection) exchange(edit manifest.Edit, gone []relic, made int64) error {
	if err := c.db.install(edit, nil); err != nil {
		return err
	}
	c.mu.Lock()
	c.done.Files += len(gone)
	for i := range gone {
		c.done.InputBytes += gone[i].bytes
	}
	c.done.OutputBytes += made
	c.mu.Unlock()
	c.db.discard(gone)
	return nil
}

// rewriteFile writes what is live of a file into a new one. Nothing is left of
// that after an error, nor after a fault in the mapping of the old one.
func (d *DB) rewriteFile(old *manifest.ValueFile, live *liveValues, stop func() error) (made *manifest.ValueFile, err error) {
	source, err := d.tables.OpenValues(old)
	if err != nil {
		return nil, err
	}
	num, out, err := d.newValueFile()
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	defer func() {
		if err = errors.Join(err, out.Close(), source.Close()); err != nil || made == nil {
			made = nil
			d.removeFile(base.ValueName(num))
		}
	}()
	props, err := values.Rewrite(values.RewriteJob{
		Source: source, Out: out, Salt: rand.Uint64(), Live: live.all(), Stop: stop,
	})
	if err != nil {
		return nil, err
	}
	return valueFileOf(props, num), nil
}
