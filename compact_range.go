package stoat

import (
	"context"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

// CompactOptions say what DB.Compact is to compact.
type CompactOptions struct {
	// Lower and Upper bound the keys: from Lower, inclusive, to Upper,
	// exclusive. nil is no bound.
	Lower, Upper []byte
	// Progress, if it is set, is called before each step, and now and then in a
	// long one, by the goroutine that called Compact. It should be brief: the work
	// waits for it. It must not call DB.Close, nor what waits for merges as Compact
	// and DropAll do: that would wait for itself.
	Progress func(CompactProgress)
}

// CompactProgress says how far a call of DB.Compact has come.
type CompactProgress struct {
	// Done is how many bytes of tables and value files have been gone through,
	// and Total an estimate of what that will be in the end. It changes: what a
	// merge finds to be garbage is only known when it is done.
	Done, Total int64
}

// Compact brings all keys of a range to the last level of the tree and gives
// back the space of everything in it that is deleted, overwritten or expired,
// except what open transactions still see. It is never needed: the database
// does in time by itself what is worth its cost. It makes a database that will
// only be read from now on as small and fast as it can be.
//
// When Lower and Upper are nil, values that lie apart from their keys are given
// back too, and those that are scattered over many files are brought into the
// order of their keys. Those of a file that cannot be read stay where they are; when
// all else is done, an error tells of them.
//
// When ctx is done, Compact ends soon with its error; what was done until then
// stays done.
func (d *DB) Compact(ctx context.Context, o CompactOptions) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	if o.Lower != nil && o.Upper != nil && string(o.Lower) >= string(o.Upper) {
		return invalid("CompactOptions.Lower is %q, not less than Upper, %q", o.Lower, o.Upper)
	}
	return d.reclaim(ctx, "compact", compaction{db: d, o: o}, (*compaction).runCompact)
}

// Collect gives back the space of all values apart from their keys to which no
// table refers any more, however little it is. It is never needed: the database
// collects by itself what is worth its cost. Keys that were overwritten or
// deleted lately may keep their values until a merge finds out; Compact merges
// first.
//
// The garbage of a file that cannot be read stays; when that of all others has
// been given back, an error tells of it.
//
// When ctx is done, Collect ends soon with its error; what was done until then
// stays done.
func (d *DB) Collect(ctx context.Context) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	return d.reclaim(ctx, "collect", compaction{db: d}, (*compaction).runCollectOnly)
}

// reclaim carries out a call of Compact or Collect.
func (d *DB) reclaim(ctx context.Context, name string, c compaction, run func(*compaction) error) error {
	ctx, end, err := d.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer end()
	c.stop, c.end = func() error { return interrupted(ctx) }, ctx.Done()
	c.upTo = d.lastVersion()
	if err = d.flushAll(ctx); err == nil {
		err = fault.Guard(func() error { return run(&c) })
	}
	if err == nil {
		err = c.sweep()
	}
	if err != nil {
		if d.manifest.Err() != nil {
			d.backgroundFailed(err)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// A compaction is a call of Compact or Collect. It takes turns with the
// compactor and the collector, job by job, so that each sees what the others
// have done.
type compaction struct {
	db   *DB
	o    CompactOptions
	stop func() error
	end  <-chan struct{} // closed when stop has something to say; nil is never
	done int64
	left int64 // what seemed to be left when done was told of last
	// What was committed after upTo is left to the compactor, and files from next
	// on, which were made by this compaction or beside it, are not rewritten
	// again: so it comes to an end while others write.
	upTo base.SeqNum
	next base.FileNum
	// live is what tables were found to refer to since collecting began.
	live survey
	// gathered is how many bytes of values were brought into the order of their
	// keys, gatherMax how many there were when that began.
	gathered, gatherMax int64
}

// runCompact is a call of Compact, whose caller is told what could not be done.
func (c *compaction) runCompact() error {
	if err := c.run(); err != nil {
		return err
	}
	return c.db.bad.keepValues(c.db.manifest.State().Version, c.o.Lower, c.o.Upper)
}

// sinkAll takes the range to the last level.
func (c *compaction) sinkAll() error { return c.eachInRoom(c.sink) }

func (c *compaction) run() error {
	if err := c.sinkAll(); err != nil {
		return err
	}
	err := c.eachInRoom(c.join)
	if c.inRange() || err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	// Files that there is no room to join keep no garbage.
	return errors.Join(err, c.runGather())
}

// inRange reports whether only a part of the keys is meant.
func (c *compaction) inRange() bool { return c.o.Lower != nil || c.o.Upper != nil }

// eachInRoom is each of what merges. When there is no room for that, what
// collection gives back may be enough.
func (c *compaction) eachInRoom(step func() (bool, error)) error {
	c.next = base.FileNum(c.db.nextFile.Load())
	err := c.each(&c.db.compacting, step)
	if !errors.Is(err, ErrNoSpace) || c.inRange() {
		return err
	}
	if e := c.runCollect(); e != nil {
		return errors.Join(err, e)
	}
	if e := c.sweep(); e != nil {
		return errors.Join(err, e)
	}
	c.next = base.FileNum(c.db.nextFile.Load())
	return c.each(&c.db.compacting, step)
}

// runGather gathers and collects in turns: each makes room for the other. It ends
// with a round that finds nothing to gather, but not with the first, for which there
// may have been no room before that was collected.
func (c *compaction) runGather() error {
	for _, f := range c.db.manifest.State().Version.Values {
		c.gatherMax += int64(f.Bytes)
	}
	for first := true; ; first = false {
		gathered := c.gathered
		c.next = base.FileNum(c.db.nextFile.Load())
		if err := c.each(&c.db.compacting, c.gather); err != nil {
			return err
		}
		if err := c.runCollect(); err != nil {
			return err
		}
		if c.gathered == gathered && !first {
			return nil
		}
		if err := c.sweep(); err != nil { // what waits to be deleted takes room as well
			return err
		}
	}
}

func (c *compaction) runCollect() error {
	c.next, c.live = base.FileNum(c.db.nextFile.Load()), survey{}
	return c.each(&c.db.collecting, c.collect)
}

// runCollectOnly is a call of Collect, whose caller is told what could not be done.
func (c *compaction) runCollectOnly() error {
	if err := c.runCollect(); err != nil {
		return err
	}
	return c.db.bad.keepGarbage(c.db.manifest.State().Version)
}

// each repeats step, in turn with others, until it finds nothing to do.
func (c *compaction) each(t *turn, step func() (bool, error)) error {
	for {
		c.report()
		if err := c.stop(); err != nil {
			return err
		}
		did, err := c.inTurn(t, step)
		if !did || err != nil {
			return err
		}
	}
}

// inTurn does step once nobody else is at work, however long that takes, but for
// the end of c.
func (c *compaction) inTurn(t *turn, step func() (bool, error)) (bool, error) {
	if !t.lockBefore(c.end) {
		return false, c.stop()
	}
	defer t.Unlock()
	return step()
}

// sweep gives back what is garbage by now, except what open transactions still see.
// A job of the work behind keeps all files that were there when it began, what has
// been dropped since among them, so those under way are waited for.
func (c *compaction) sweep() error {
	d := c.db
	d.sweep()
	if d.garbage.empty() {
		return nil
	}
	for _, t := range []*turn{&d.compacting, &d.collecting} {
		if _, err := c.inTurn(t, func() (bool, error) { return false, nil }); err != nil {
			return err
		}
	}
	d.sweep()
	return nil
}

// report tells how far it has come.
func (c *compaction) report() {
	if c.o.Progress == nil {
		return
	}
	c.left = c.ahead()
	c.o.Progress(CompactProgress{Done: c.done, Total: c.done + c.left})
}

// reportEvery is after how many bytes a step that takes long tells how far it has
// come.
const reportEvery = 4 << 20

// reportWithin returns what tells how far a step has come, or nil.
func (c *compaction) reportWithin() func(moved int64) {
	if c.o.Progress == nil {
		return nil
	}
	done, told := c.done, c.done
	return func(moved int64) {
		if done += moved; done < told+reportEvery {
			return
		}
		told = done
		c.o.Progress(CompactProgress{Done: done, Total: max(done, c.done+c.left)})
	}
}

// ahead estimates how much there is still to go through.
func (c *compaction) ahead() int64 {
	d := c.db
	state := d.manifest.State()
	v := state.Version
	r := c.keys()
	n := r.Ahead(v, d.shape(busy))
	if c.inRange() {
		return n
	}
	tables, moves := c.gatherAhead(&state)
	n += tables
	// What is left behind in a file is copied, if something has left it.
	for _, f := range v.Values {
		moved := min(moves[f.Num], f.Live)
		if (moved > 0 || f.Live < f.Bytes) && c.collects(f, state.FlushedSeq) {
			n += int64(f.Live - moved)
		}
	}
	return n
}

// gatherAhead estimates how many bytes it takes to gather all that is worth it, and
// how many of which value files that moves. What is not moved for want of room
// before files are collected is copied by that.
func (c *compaction) gatherAhead(state *manifest.State) (bytes int64, moves map[base.FileNum]uint64) {
	d := c.db
	room, later := d.gatherRoom(state)
	if later == 0 || c.gatherMax > 0 && c.gathered >= c.gatherMax {
		return 0, nil
	}
	g, shape := d.gathering(true)
	bytes, moves = g.Ahead(state.Version, shape)
	left := int64(0)
	for _, moved := range moves {
		left += int64(moved)
	}
	bytes += left
	for left -= int64(room); left > 0; left -= int64(later) {
		bytes += left
	}
	return bytes, moves
}

// keys is what is taken to the last level.
func (c *compaction) keys() compact.Range {
	return compact.Range{Lo: c.o.Lower, Hi: c.o.Upper, UpTo: c.upTo, Next: c.next}
}

// sink does the next step of taking the range to the last level.
func (c *compaction) sink() (bool, error) {
	d := c.db
	plan, due := compact.PickRange(d.manifest.State().Version, d.shape(busy), c.keys())
	if !due {
		return false, nil
	}
	c.done += plan.InputBytes()
	return true, d.compact(plan, c.stop)
}

// join writes the values of small files to larger ones.
func (c *compaction) join() (bool, error) {
	d := c.db
	plan, due := compact.PickJoining(d.manifest.State().Version, d.shape(busy),
		compact.Joining{Lo: c.o.Lower, Hi: c.o.Upper, Next: c.next})
	if !due {
		return false, nil
	}
	c.done += plan.InputBytes()
	return true, d.compact(plan, c.stop)
}

// gather brings values into the order of their keys, as many as there is room
// for beside the garbage.
func (c *compaction) gather() (bool, error) {
	d := c.db
	plan, due := d.pickGathering(true)
	if !due || c.gathered >= c.gatherMax {
		return false, nil
	}
	before := d.work.gatheredBytes.Load()
	err := d.compactTelling(plan, c.stop, c.reportWithin())
	moved := d.work.gatheredBytes.Load() - before
	c.gathered += moved
	c.done += plan.InputBytes() + moved
	return true, err
}

// collect gives the garbage of some value files back.
func (c *compaction) collect() (bool, error) {
	d := c.db
	state := d.manifest.State()
	var h haul
	var large error
	for _, f := range state.Version.Values {
		if f.Live >= f.Bytes || !c.collects(f, state.FlushedSeq) {
			continue
		}
		if !d.room.fits(f.Live) {
			large = fmt.Errorf("there is no room for a copy of %s, %d bytes: %w", base.ValueName(f.File), f.Live, ErrNoSpace)
			continue // others make some
		}
		if h.full(d.liveMax()) {
			break
		}
		h.add(values.Choice{Num: f.Num, Drop: f.Live == 0, Copy: f.Live, Free: f.Bytes - f.Live}, f)
		if len(h.next) == 0 {
			c.done += int64(f.Live)
		}
	}
	if len(h.now) == 0 {
		return false, large
	}
	return true, d.collect(h, &c.live, c.stop)
}

// collects reports whether the garbage of f is for c to give back, in a state in
// which so much had been flushed.
func (c *compaction) collects(f manifest.LiveValues, flushed base.SeqNum) bool {
	return f.File < c.next && !c.db.valuesHeld(f.ValueFile, flushed) && (f.Live == 0 || !c.db.bad.has(f.ValueFile))
}
