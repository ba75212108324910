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
		var due bool
		err = fault.Guard(func() (err error) {
			if hold > 0 {
				due, err = c.drop()
			} else {
				due, err = c.Tidy(now == work.Idle, &known)
			}
			return err
		})
		if err != nil {
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
	return c.PickAmong(pressure, func(manifest.LiveValues) bool { return true })
}

// PickAmong is Pick as if there were only the files for which among is true.
func (c *Collector) PickAmong(pressure values.Pressure, among func(manifest.LiveValues) bool) Batch {
	s := c.store.State()
	files := make([]values.FileState, 0, len(s.Version.Values))
	for _, v := range s.Version.Values {
		if !among(v) || !c.o.Space.WorthCopying(v.Live) || mutant.On(mutant.KeepGarbage) {
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
