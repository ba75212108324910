package stoat

import (
	"errors"
	"sync"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/values"
)

// A collector is the goroutine that collects garbage, beside the compactor. It
// exists only while there is some to collect, or when it failed, until it has
// tried again.
type collector struct {
	mu     sync.Mutex
	active bool // the goroutine exists
	again  bool // it is to look once more before it ends
}

// wakeCollector makes the collector look for garbage.
func (d *DB) wakeCollector() {
	b := &d.background
	b.ending.Lock()
	defer b.ending.Unlock()
	c := &b.collector
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case d.driver != nil || b.stopped.Err() != nil:
	case c.active:
		c.again = true
	default:
		c.active = true
		b.running.Go(d.runCollector)
	}
}

func (d *DB) runCollector() {
	c := &d.background.collector
	retry := retryAfter
	for {
		err := d.collectStep()
		if err != nil && !d.rested(retry) {
			return
		}
		if err == nil || errors.Is(err, ErrNoSpace) { // then the next copy is a smaller one
			retry = retryAfter
		} else {
			retry = min(2*retry, patientRetryMax)
		}
		c.mu.Lock()
		if c.active = c.again; !c.active {
			c.mu.Unlock()
			return
		}
		c.again = false
		c.mu.Unlock()
	}
}

// rested waits, and reports whether the database is still to be worked on.
func (d *DB) rested(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.background.stopped.Done():
		return false
	case <-timer.C:
		c := &d.background.collector
		c.mu.Lock()
		c.again = true
		c.mu.Unlock()
		return true
	}
}

// collectStep gives garbage back as long as there is enough of it.
func (d *DB) collectStep() error {
	var known survey
	for did := false; ; did = true {
		now, _ := d.calm()
		var due bool
		if err := fault.Guard(func() (err error) { due, err = d.tidyValues(now == idling, &known); return err }); err != nil {
			d.room.rests(collectionRests)
			d.backgroundFailed(err)
			return err
		}
		if !due && did {
			d.background.compactor.wake() // there may be room for a gathering
		}
		if !due {
			d.room.rests(collectionRests)
			return nil
		}
	}
}

// tidyValues collects what is most worth it, and reports whether anything was. What
// is known from one call is of use to the next.
func (d *DB) tidyValues(idle bool, known *survey) (due bool, err error) {
	d.collecting.Lock()
	defer d.collecting.Unlock()
	pressure := d.pressure(idle && !d.gatheringDue())
	h := d.pickCollection(pressure)
	if len(h.now) == 0 {
		return false, nil
	}
	h.idle = pressure == values.Idle
	return true, d.collect(h, known, d.room.sparing(d.stopped))
}

// pressure says how much else there is to do.
func (d *DB) pressure(idle bool) values.Pressure {
	switch {
	case idle:
		return values.Idle
	case d.admission.gauge.over.Load():
		return values.Strained
	}
	return values.Busy
}

// pickCollection returns what is most worth collecting.
func (d *DB) pickCollection(pressure values.Pressure) haul {
	state := d.manifest.State()
	files := make([]values.FileState, 0, len(state.Version.Values))
	for _, v := range state.Version.Values {
		if !d.room.worthCopying(v.Live) {
			continue
		}
		files = append(files, values.FileState{Num: v.Num, Bytes: v.Bytes, Live: v.Live,
			Held: d.valuesHeld(v.ValueFile, state.FlushedSeq) || v.Live > 0 && d.bad.has(v.ValueFile)})
	}
	var h haul
	most := d.liveMax()
	for c := range values.PickCollection(files, pressure) {
		f, _ := state.Version.Value(c.Num)
		if h.add(c, f); h.full(most) {
			break
		}
	}
	return h
}

// valuesHeld reports whether more than the tables may refer to a value file.
func (d *DB) valuesHeld(v *manifest.ValueFile, flushed base.SeqNum) bool {
	return (v.LastSeq > flushed || d.apart.held(v.Num, flushed)) && !mutant.On(mutant.CollectHeld)
}
