package collect

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/histogram"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/quarantine"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// Options are what a Collector is made of.
type Options struct {
	Store      *state.Store
	Commits    *commit.Committer
	Throttle   *throttle.Throttle
	Space      *space.Reserve
	Quarantine *quarantine.Quarantine
	Group      *work.Group
	Executor   *work.Executor
	Report     event.Sink
	// Unmapped are the options for reading tables past the mappings.
	Unmapped     tree.Options
	MemoryBudget int64 // bytes

	// Load returns the load that jobs go by.
	Load func() (work.Load, time.Duration)
	// Quiet returns the time since the last commit, or since the database was opened.
	Quiet func() time.Duration
	// GatheringDue reports whether a gathering is about to make garbage of files that
	// need not be collected before.
	GatheringDue func() bool
	// Compact wakes the compactor.
	Compact func()
}

// A Collector collects the garbage of value files.
type Collector struct {
	o     Options
	store *state.Store

	// Collecting is held from the choice of a collection to its end.
	Collecting *work.Lock[lock.Collecting]

	readers readersSeen // owned by Step

	Counts Counts
}

// Counts are what a Collector has done, since Open.
type Counts struct {
	Collections, CollectedBytes atomic.Int64
	Time                        histogram.Histogram
}

// New returns the collector of a database.
func New(o Options) *Collector {
	return &Collector{o: o, store: o.Store, Collecting: work.NewLock[lock.Collecting]()}
}

// Step is the step of the collector: it collects as long as there is enough
// garbage.
func (c *Collector) Step() (again time.Duration, err error) {
	defer c.o.Space.Step()()
	var known LiveSet
	for did := false; ; did = true {
		now, _ := c.o.Load()
		hold := c.holdFor(now)
		tidy := func() (bool, error) { return c.Tidy(now == work.Idle, &known) }
		if hold > 0 {
			tidy = c.drop
		}
		var due bool
		if err := fault.Guard(func() (err error) { due, err = tidy(); return err }); err != nil {
			c.o.Space.Rests(space.Collections)
			c.o.Commits.JobFailed(err)
			if errors.Is(err, vfs.ErrNoSpace) {
				return work.RetryAfter, err // the next copy is a smaller one
			}
			return 0, err
		}
		if !due && did {
			c.o.Compact() // there may be room for a gathering
		}
		if !due {
			if hold == 0 {
				c.o.Space.Rests(space.Collections)
				c.readers.since = 0
			}
			return hold, nil
		}
	}
}

// Tidy collects the files that are most worth it, and reports whether there were any.
// known carries what this call finds out to the next one.
func (c *Collector) Tidy(idle bool, known *LiveSet) (due bool, err error) {
	c.Collecting.Lock()
	defer c.Collecting.Unlock()
	b := c.Pick(c.pressure(idle && !c.o.GatheringDue()))
	if len(b.now) == 0 {
		return false, nil
	}
	return true, c.Run(b, known, c.o.Space.Sparing(c.o.Group.Err))
}

// drop drops the files without live values, and reports whether there were any.
func (c *Collector) drop() (due bool, err error) {
	c.Collecting.Lock()
	defer c.Collecting.Unlock()
	b := c.Pick(values.Busy)
	b.Keep(func(choice values.Choice) bool { return choice.Drop })
	if b.Empty() {
		return false, nil
	}
	return true, c.Run(b, new(LiveSet), c.o.Space.Sparing(c.o.Group.Err))
}

// pressure returns the load beside the collection.
func (c *Collector) pressure(idle bool) values.Pressure {
	switch {
	case idle:
		return values.Idle
	case c.o.Throttle.Collecting():
		return values.Strained
	}
	return values.Busy
}

// Pick returns the files that are most worth collecting.
func (c *Collector) Pick(pressure values.Pressure) Batch {
	s := c.store.State()
	files := make([]values.FileState, 0, len(s.Version.Values))
	for _, v := range s.Version.Values {
		if !c.o.Space.WorthCopying(v.Live) || mutant.On(mutant.KeepGarbage) {
			continue
		}
		files = append(files, values.FileState{Num: v.Num, Bytes: v.Bytes, Live: v.Live,
			Held: c.o.Commits.Held.Holds(v.ValueFile, s.FlushedSeq) || v.Live > 0 && c.o.Quarantine.HasValues(v.ValueFile)})
	}
	b := Batch{copyMax: uint64(c.o.Executor.StepBytes)}
	most := c.LiveMax()
	for choice := range values.PickCollection(files, pressure, c.o.Throttle.Slack()) {
		f, _ := s.Version.Value(choice.Num)
		if b.Add(choice, f); b.Full(most) {
			break
		}
	}
	return b
}

// A Batch is value files with garbage. The collector collects those of now, and then
// chooses anew. It will probably choose those of next.
type Batch struct {
	now, next []values.Choice
	copied    uint64 // bytes, by those of now
	copyMax   uint64 // about how many bytes those of now may copy; 0 is batchBytes
	memory    uint64 // about the bytes that a LiveSet of all of them takes
}

const (
	// batchBytes is about how many bytes one collection copies.
	batchBytes = 64 << 20
	// nextFiles bounds how many files are chosen that are not collected now.
	nextFiles = 128
)

// Full reports whether the batch has enough files. most is the number of bytes that a
// LiveSet of them may take.
func (b *Batch) Full(most int) bool {
	return !b.copiesMore() && (b.memory >= uint64(most) || len(b.next) >= nextFiles)
}

// Add adds a file, and reports whether the file is collected now.
func (b *Batch) Add(choice values.Choice, f manifest.LiveValues) (now bool) {
	if now = b.copiesMore(); now {
		b.now = append(b.now, choice)
		b.copied += choice.Copy
	} else {
		b.next = append(b.next, choice)
	}
	b.memory += uint64(float64(f.Values) * float64(choice.Copy) / float64(max(f.Bytes, 1)) * liveEstimate)
	return now
}

// copiesMore reports whether another file is collected now.
func (b *Batch) copiesMore() bool {
	most := b.copyMax
	if most == 0 {
		most = batchBytes
	}
	return b.copied < most
}

// Empty reports whether nothing is collected now.
func (b *Batch) Empty() bool { return len(b.now) == 0 }

// Keep keeps the files for which keep is true.
func (b *Batch) Keep(keep func(values.Choice) bool) {
	b.now, b.next = filter(b.now, keep), filter(b.next, keep)
}

func filter(choices []values.Choice, keep func(values.Choice) bool) (kept []values.Choice) {
	for _, c := range choices {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}
