package stoat

import (
	"context"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

// CompactOptions say what DB.Compact is to compact.
type CompactOptions struct {
	// Lower and Upper bound the keys: from Lower, inclusive, to Upper,
	// exclusive. nil is no bound.
	Lower, Upper []byte
	// Progress, if it is set, is called before each step by the goroutine that
	// called Compact. It should be brief: the work waits for it.
	Progress func(CompactProgress)
}

// CompactProgress says how far a call of DB.Compact has come.
type CompactProgress struct {
	// Done is how many bytes of tables and value files have been gone through,
	// and Total an estimate of what that will be in the end.
	Done, Total int64
}

// Compact brings all keys of a range to the last level of the tree and gives
// back the space of everything in it that is deleted, overwritten or expired,
// except what open transactions still see. It is never needed: the database
// does in time by itself what is worth its cost. It makes a database that will
// only be read from now on as small and fast as it can be.
//
// Values that lie apart from their keys are given back too, whatever their key,
// when Lower and Upper are nil.
//
// When ctx is done, Compact ends soon with its error; what was done until then
// stays done.
func (d *DB) Compact(ctx context.Context, o CompactOptions) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	if o.Lower != nil && o.Upper != nil && string(o.Lower) >= string(o.Upper) {
		return fmt.Errorf("stoat: CompactOptions.Lower is %q, not less than Upper, %q", o.Lower, o.Upper)
	}
	ctx, end, err := d.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer end()
	c := compaction{db: d, o: o, stop: func() error { return interrupted(ctx) }}
	if err := d.flushAll(ctx); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if err := c.run(); err != nil {
		if d.manifest.Err() != nil {
			d.backgroundFailed(err)
		}
		return err
	}
	d.sweep()
	return nil
}

// A compaction is a call of Compact. It takes turns with the compactor, job by
// job, so that both see what the other has done.
type compaction struct {
	db   *DB
	o    CompactOptions
	stop func() error
	done int64
	// Files from next on were made by this compaction or beside it. They are
	// not rewritten again, so that it comes to an end.
	next base.FileNum
}

func (c *compaction) run() error {
	if err := c.each(c.sink); err != nil {
		return err
	}
	c.next = base.FileNum(c.db.nextFile.Load())
	if err := c.each(c.strip); err != nil {
		return err
	}
	if c.o.Lower != nil || c.o.Upper != nil {
		return nil
	}
	c.next = base.FileNum(c.db.nextFile.Load())
	return c.each(c.collect)
}

// each repeats step until it finds nothing to do.
func (c *compaction) each(step func() (bool, error)) error {
	for {
		c.report()
		if err := c.stop(); err != nil {
			return fmt.Errorf("compact: %w", err)
		}
		did, err := c.locked(step)
		if !did || err != nil {
			return err
		}
	}
}

func (c *compaction) locked(step func() (bool, error)) (bool, error) {
	c.db.compacting.Lock()
	defer c.db.compacting.Unlock()
	return step()
}

// report tells how far it has come: what is done, and what would be if every
// table that is not at the bottom went there.
func (c *compaction) report() {
	if c.o.Progress == nil {
		return
	}
	left := int64(0)
	v := c.db.manifest.State().Version
	for level := range manifest.Levels - 1 {
		for _, t := range v.Overlapping(level, c.o.Lower, c.o.Upper, true) {
			left += t.Size
		}
	}
	c.o.Progress(CompactProgress{Done: c.done, Total: c.done + left})
}

// sink does the next step of taking the range to the last level.
func (c *compaction) sink() (bool, error) {
	d := c.db
	plan, due := compact.PickRange(d.manifest.State().Version, d.shape(false), c.o.Lower, c.o.Upper)
	if !due {
		return false, nil
	}
	c.done += plan.InputBytes()
	return true, d.compact(plan, c.stop)
}

// strip rewrites a table of the last level that has versions which snapshots
// needed when it was written, and nobody needs any more.
func (c *compaction) strip() (bool, error) {
	d := c.db
	const last = manifest.Levels - 1
	oldest := d.readers.Oldest(&d.visible)
	for _, t := range d.manifest.State().Version.Overlapping(last, c.o.Lower, c.o.Upper, true) {
		if t.Num >= c.next || t.LargestSeq > oldest {
			continue
		}
		old, err := c.hasOldVersions(t)
		if err != nil {
			return false, err
		}
		if old {
			plan := compact.Plan{Reason: compact.ReasonManual, OutputLevel: last, Bottom: true, CreatedMs: t.CreatedMs}
			plan.Inputs[last] = []*manifest.Table{t}
			c.done += t.Size
			return true, d.compact(plan, c.stop)
		}
	}
	return false, nil
}

// hasOldVersions reports whether some key of a table surely has more versions
// than are to be kept.
func (c *compaction) hasOldVersions(t *manifest.Table) (bool, error) {
	r, err := c.db.tables.Open(t)
	if err != nil {
		return false, err
	}
	keys := r.Properties().Keys
	return t.Entries > keys*uint64(c.db.opts.NumVersions), r.Close()
}

// collect gives the garbage of some value files back, as many as one walk over
// the tables is worth.
func (c *compaction) collect() (bool, error) {
	d := c.db
	state := d.manifest.State()
	var choices []values.Choice
	copied := uint64(0)
	for _, f := range state.Version.Values {
		if f.File >= c.next || f.Live >= f.Bytes || d.valuesHeld(f.ValueFile, state.FlushedSeq) {
			continue
		}
		if copied += f.Live; copied > collectBytes && len(choices) > 0 {
			break
		}
		choices = append(choices, values.Choice{Num: f.Num, Drop: f.Live == 0, Copy: f.Live, Free: f.Bytes - f.Live})
		c.done += f.Size
	}
	if len(choices) == 0 {
		return false, nil
	}
	return true, d.collect(choices, c.stop)
}
