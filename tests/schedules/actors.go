package schedules

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The deeds of actors. One call does a deed once, with points in between.
// errAbandoned and every other error end it.

// A scheduleTxn is a transaction of the database and that of the model.
type scheduleTxn struct {
	w    *scheduleWorld
	tx   stoat.Txn
	mt   *model.Txn
	side *aside // nil if there was no side keyspace
}

// openTxn begins a transaction, with a point between its two halves: it takes the
// snapshot, and then loads the view that holds it.
func (w *scheduleWorld) openTxn(a *actor, write bool) (*scheduleTxn, error) {
	floor := w.known
	slot, err := w.db.Engine.Store.Acquire()
	if err != nil {
		return nil, err
	}
	if a != nil {
		if err := a.stop(pointBetween); err != nil {
			w.db.Engine.Store.Release(slot)
			return nil, err
		}
	}
	tx := inside.Outer(w.db.Engine.Transactions.BeginAt(context.Background(), slot, write)).In(w.in)
	if w.abandoned.Load() {
		tx.Discard()
		return nil, errAbandoned
	}
	t := &scheduleTxn{w: w, tx: tx, mt: w.m.Begin(tx.ReadVersion(), write)}
	t.mt.NowMs = inside.Txn(tx).NowMs()
	if w.side != nil {
		t.side = &aside{in: w.side, seq: tx.ReadVersion()}
	}
	if seq := tx.ReadVersion(); seq < floor || seq > w.m.Last() {
		tx.Discard()
		return nil, fmt.Errorf("snapshot is %d, want %d to %d", seq, floor, w.m.Last())
	}
	return t, nil
}

// get reads a key.
func (t *scheduleTxn) get(key string) error {
	t.w.did.reads++
	want, ok := t.mt.Get(key)
	return compareKey(t.tx, key, want, ok)
}

func (t *scheduleTxn) set(key string, size int) error {
	v := t.w.value(key, size)
	t.mt.Write(key, model.Version{Value: v})
	return t.tx.Set([]byte(key), t.w.unsettled(v))
}

// setForAWhile sets a value that expires after ms milliseconds: some turns.
func (t *scheduleTxn) setForAWhile(key string, size int, ms uint64) error {
	v, at := t.w.value(key, size), t.w.clock.ms.Load()+ms
	t.mt.Write(key, model.Version{Value: v, ExpiresAt: at})
	return t.tx.Set([]byte(key), t.w.unsettled(v), stoat.ExpiresAt(time.UnixMilli(int64(at))))
}

// setApart sets a value that goes to a value file before the commit.
func (t *scheduleTxn) setApart(key string, size int) error {
	v := t.w.value(key, size)
	t.mt.Write(key, model.Version{Value: v})
	return inside.Txn(t.tx).SetStream([]byte(key), bytes.NewReader(t.w.unsettled(v)), base.Meta{})
}

// merge appends to a value.
func (t *scheduleTxn) merge(key string, size int) error {
	v := t.w.value(key, size)
	t.mt.Step(key, model.Step{Operand: v, Tail: scheduleTail})
	return t.tx.Merge([]byte(key), t.w.unsettled(v))
}

// renew gives a value another expiry time: ms milliseconds from now, or never for 0.
func (t *scheduleTxn) renew(key string, ms uint64) error {
	expiry, at := time.Time{}, uint64(0)
	if ms > 0 {
		at = t.w.clock.ms.Load() + ms
		expiry = time.UnixMilli(int64(at))
	}
	t.mt.Step(key, model.Step{Renew: true, ExpiresAt: at})
	return t.tx.Renew([]byte(key), stoat.ExpiresAt(expiry))
}

func (t *scheduleTxn) delete(key string) error {
	t.mt.Write(key, model.Version{Deleted: true})
	return t.tx.Delete([]byte(key))
}

func (t *scheduleTxn) deleteRange(lo, hi string) error {
	t.mt.DeleteRange(lo, hi, true)
	return t.tx.DeleteRange([]byte(lo), []byte(hi))
}

// value returns a unique value of about the given length.
func (w *scheduleWorld) value(key string, size int) string {
	w.values++
	v := fmt.Sprintf("%s=%d;", key, w.values)
	return v + strings.Repeat("v", max(0, size-len(v)))
}

// update commits what write does.
func (w *scheduleWorld) update(a *actor, synced bool, write func(t *scheduleTxn) error) error {
	t, err := w.openTxn(nil, true)
	if err != nil {
		return err
	}
	defer t.tx.Discard()
	if err := write(t); err != nil {
		return err
	}
	return w.commit(a, t, synced)
}

// short and long are lengths in bytes of values beside their keys and apart from
// them.
const (
	short = 12
	long  = 120
)

// lengths are those of random values, in bytes. The longest make merges and
// collections worth while.
var lengths = []int{short, short, 40, long, long, long, 700, 3000}

// scheduleKeys are all keys of random schedules.
var scheduleKeys = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

func anyKey(rng *rand.Rand) string { return scheduleKeys[rng.IntN(len(scheduleKeys))] }
func anyLength(rng *rand.Rand) int { return lengths[rng.IntN(len(lengths))] }

// writeSomething is one random transaction.
func (w *scheduleWorld) writeSomething(a *actor, rng *rand.Rand) error {
	t, err := w.openTxn(a, true)
	if err != nil {
		return err
	}
	defer t.tx.Discard()
	for range 1 + rng.IntN(3) {
		err := t.doSomething(rng)
		if gone := a.gone(); gone != nil {
			return gone
		}
		if err == nil && rng.IntN(3) == 0 {
			err = a.stop(pointBetween)
		}
		if err != nil {
			return err
		}
	}
	return w.commit(a, t, rng.IntN(2) == 0)
}

// doSomething does one thing to a random key.
func (t *scheduleTxn) doSomething(rng *rand.Rand) error {
	if t.side != nil && rng.IntN(2) == 0 {
		return t.doAside(rng)
	}
	if t.w.filters && rng.IntN(6) == 0 {
		return t.doomSomething(rng)
	}
	key, n := anyKey(rng), rng.IntN(16)
	if (n == 5 || n >= 11 && n < 15) && rng.IntN(2) == 0 {
		key = scheduleKeys[rng.IntN(2)] // expiry and steps of one key meet more often
	}
	switch {
	case n < 5:
		return t.set(key, anyLength(rng))
	case n < 6:
		return t.setForAWhile(key, anyLength(rng), 1+rng.Uint64N(20))
	case n < 9:
		return t.delete(key)
	case n < 10:
		return t.deleteRange(key, anyKey(rng)+"x")
	case n < 11:
		return t.setApart(key, anyLength(rng))
	case n < 13:
		return t.merge(key, anyLength(rng))
	case n < 15:
		return t.renew(key, rng.Uint64N(20))
	}
	return t.get(key)
}

// furnish makes a tree of a few tables and value files for a schedule to begin
// with.
func (w *scheduleWorld) furnish(rng *rand.Rand) error {
	for range rng.IntN(6) {
		err := w.update(nil, false, func(t *scheduleTxn) error {
			for range 2 + rng.IntN(6) {
				if err := t.doSomething(rng); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = w.rotateAndFlush()
		}
		if err == nil && rng.IntN(3) == 0 {
			err = w.compact(true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readSomething reads some keys of one snapshot.
func (w *scheduleWorld) readSomething(a *actor, rng *rand.Rand) error {
	return w.read(a, func(t *scheduleTxn) error {
		for range 1 + rng.IntN(5) {
			if err := t.get(anyKey(rng)); err != nil {
				return err
			}
			if err := a.stop(pointBetween); err != nil {
				return err
			}
		}
		return inside.Txn(t.tx).Check()
	})
}

// read does something with a snapshot.
func (w *scheduleWorld) read(a *actor, do func(t *scheduleTxn) error) error {
	t, err := w.openTxn(a, false)
	if err != nil {
		return err
	}
	defer t.tx.Discard()
	return do(t)
}

// iterateSomewhere walks over a snapshot.
func (w *scheduleWorld) iterateSomewhere(a *actor, rng *rand.Rand) error {
	o := stoat.IterOptions{Reverse: rng.IntN(3) == 0, AllVersions: rng.IntN(3) == 0}
	if rng.IntN(3) == 0 {
		o.Lower = []byte(anyKey(rng))
	}
	if rng.IntN(3) == 0 {
		o.Upper = []byte(anyKey(rng))
	}
	return w.read(a, func(t *scheduleTxn) error {
		it := t.iterate(o)
		defer it.close()
		for moved := 0; moved < 12; moved++ {
			var err error
			switch turn := rng.IntN(10); {
			case moved > 0 && turn < 2:
				err = it.seek(anyKey(rng))
			case moved > 0 && turn < 4:
				err = it.prev()
			default:
				err = it.next()
			}
			if err != nil || !it.of.Valid() {
				return err
			}
			if rng.IntN(2) == 0 {
				if err := a.stop(pointBetween); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// A scheduleIterator is an iterator and that of the model.
type scheduleIterator struct {
	w    *scheduleWorld
	of   stoat.Iterator
	twin *model.Iterator
	all  bool // versions
}

func (t *scheduleTxn) iterate(o stoat.IterOptions) *scheduleIterator {
	t.w.did.iterators++
	return &scheduleIterator{w: t.w, of: t.tx.Iterator(o), all: o.AllVersions, twin: t.mt.Iterator(model.IterOptions{
		Lower: string(o.Lower), Upper: string(o.Upper), Bounded: o.Upper != nil,
		Reverse: o.Reverse, AllVersions: o.AllVersions,
	})}
}

func (it *scheduleIterator) close() {
	it.of.Close()
	it.twin.Close()
}

func (it *scheduleIterator) next() error {
	return it.compare(it.pass(it.of.Next(), it.of.Next), it.twin.Next())
}

func (it *scheduleIterator) prev() error {
	return it.compare(it.pass(it.of.Prev(), it.of.Prev), it.twin.Prev())
}

func (it *scheduleIterator) seek(key string) error {
	return it.compare(it.pass(it.of.Seek([]byte(key)), it.of.Next), it.twin.Seek(key))
}

// pass goes on over doomed values. An iterator over versions shows deletions, too.
func (it *scheduleIterator) pass(ok bool, on func() bool) bool {
	for !it.all && ok && doomed(it.of.Value()) {
		ok = on()
	}
	return ok
}

// compare compares what the iterator has moved to with the model.
func (it *scheduleIterator) compare(ok, want bool) error {
	var got model.Item
	if ok {
		got = itemOf(it.of)
	}
	if err := it.of.Err(); err != nil {
		return fmt.Errorf("iterator: %w", err)
	}
	switch {
	case it.all:
		if err := it.twin.Reach(got, ok); err != nil {
			return fmt.Errorf("iterator over all versions: %w", err)
		}
	case ok != want:
		return fmt.Errorf("iterator: at %v %t, want %v %t", got, ok, it.twin.Item(), want)
	case ok && got != it.twin.Item():
		return fmt.Errorf("iterator: at %v, want %v", got, it.twin.Item())
	}
	return nil
}

// memtablesMost is how many memtables there may be before actors stop rotating.
const memtablesMost = 4

// rotate lets a flush take what was committed.
func (w *scheduleWorld) rotate() error {
	if len(w.db.Engine.Store.View().Memtables) > memtablesMost {
		return nil
	}
	return w.db.Engine.Commits.Rotate(true)
}

// flush does what the flusher does.
func (w *scheduleWorld) flush() error {
	did, err := w.db.Engine.Jobs.FlushNext()
	if did {
		w.did.flushes++
	}
	return err
}

// rotateAndFlush flushes what was committed.
func (w *scheduleWorld) rotateAndFlush() error {
	if err := w.rotate(); err != nil {
		return err
	}
	return w.flush()
}

// compactSomething does one job of the compactor, of a random kind.
func (w *scheduleWorld) compactSomething(rng *rand.Rand) error {
	switch rng.IntN(8) {
	case 0:
		_, err := w.db.Engine.Jobs.Tidy(work.Load(rng.IntN(3)))
		return err
	case 1:
		return w.compactManually(rng)
	case 2:
		return w.gather(rng)
	}
	return w.compact(rng.IntN(3) > 0)
}

// compact does the most urgent compaction of a tree of a small shape.
func (w *scheduleWorld) compact(idle bool) error {
	d := w.db
	d.Engine.Jobs.Compacting.Lock()
	defer d.Engine.Jobs.Compacting.Unlock()
	plan, due := compact.Pick(d.Engine.Store.Version(), w.smallShape(idle))
	if !due {
		return nil
	}
	return w.carryOut(plan)
}

// carryOut carries a plan out. The caller holds Compacting.
func (w *scheduleWorld) carryOut(plan compact.Plan) error {
	switch {
	case plan.Drop:
		w.did.drops++
	case plan.Move:
		w.did.moves++
	default:
		w.did.merges++
	}
	return w.db.Engine.Jobs.Run(plan, w.db.Engine.Group.Err, nil)
}

// compactManually does a job of DB.Compact, often with bounds.
func (w *scheduleWorld) compactManually(rng *rand.Rand) error {
	r := compact.Range{UpTo: base.SeqNumMax, Next: 1 << 40}
	if all := slices.Collect(w.db.Engine.Store.Version().Tables()); len(all) > 0 && rng.IntN(4) > 0 {
		// The keys of a table lie between bounds of others.
		r.Lo, r.Hi = all[rng.IntN(len(all))].Smallest, all[rng.IntN(len(all))].Largest
		if bytes.Compare(r.Lo, r.Hi) > 0 {
			r.Lo, r.Hi = r.Hi, r.Lo
		}
	}
	_, err := w.sink(r)
	return err
}

// sink does the next step of taking a range to the last level, as DB.Compact does. It
// reports whether there was one. It cuts tables of level 0 at the bounds of the range.
func (w *scheduleWorld) sink(r compact.Range) (did bool, err error) {
	d := w.db
	d.Engine.Jobs.Compacting.Lock()
	defer d.Engine.Jobs.Compacting.Unlock()
	s := d.Engine.Jobs.Shape(work.Busy, d.Engine.Store.Horizon())
	s.CutFrom = -1
	plan, due := compact.PickRange(d.Engine.Store.Version(), s, r)
	if !due {
		return false, nil
	}
	if plan.Cuts {
		w.did.cuts++
	}
	return true, d.Engine.Jobs.Run(plan, d.Engine.Group.Err, nil)
}

// gather brings some values into the order of their keys.
func (w *scheduleWorld) gather(rng *rand.Rand) error {
	d := w.db
	d.Engine.Jobs.Compacting.Lock()
	defer d.Engine.Jobs.Compacting.Unlock()
	plan, due := compact.PickGathering(d.Engine.Store.Version(), w.smallShape(true),
		compact.Gathering{Share: rng.Float64(), RecordMax: 4 << 10, Bytes: 1 + rng.Uint64N(4<<10)})
	if !due {
		return nil
	}
	plan.Reason = compact.ReasonManual // the clock must not decide when it ends
	w.did.gatherings++
	return d.Engine.Jobs.Run(plan, d.Engine.Group.Err, nil)
}

// collect rewrites all files with garbage, or the one that is most worth it. In the
// second case it looks for what is live in the others as well.
func (w *scheduleWorld) collect(all bool) error {
	d := w.db
	if all {
		return w.collectGarbage()
	}
	d.Engine.Collector.Collecting.Lock()
	defer d.Engine.Collector.Collecting.Unlock()
	b := d.Engine.Collector.Pick(values.Idle)
	if b.Empty() {
		return nil
	}
	w.did.collections++
	return d.Engine.Collector.Run(b, &w.live, d.Engine.Group.Err)
}

// collectGarbage rewrites files with garbage as DB.Collect does, without the flush before it
// and the sweep after it.
func (w *scheduleWorld) collectGarbage() error {
	e := w.db.Engine
	e.Collector.Collecting.Lock()
	defer e.Collector.Collecting.Unlock()
	s := e.Store.State()
	var b collect.Batch
	for _, f := range s.Version.Values {
		if f.Live >= f.Bytes || e.Commits.Held.Holds(f.ValueFile, s.FlushedSeq) {
			continue
		}
		if b.Full(e.Collector.LiveMax()) {
			break
		}
		b.Add(values.Choice{Num: f.Num, Drop: f.Live == 0, Copy: f.Live, Free: f.Bytes - f.Live}, f)
	}
	if b.Empty() {
		return nil
	}
	w.did.collections++
	var live collect.LiveSet
	return e.Collector.Run(b, &live, e.Group.Err)
}

// checkpoint makes a copy of the database and verifies it. It may begin when
// everything is flushed: see mayBegin.
func (w *scheduleWorld) checkpoint(a *actor) error {
	floor := w.known
	w.checkpoints++
	dir := fmt.Sprintf("/copy-%d", w.checkpoints)
	if err := w.db.Checkpoint(context.Background(), dir); err != nil {
		return err
	}
	if gone := a.gone(); gone != nil {
		return gone
	}
	w.did.checkpoints++
	return w.verifyCopy(dir, floor)
}

// verifyCopy opens a checkpoint, as it is now and as a power cut leaves it.
func (w *scheduleWorld) verifyCopy(dir string, floor uint64) error {
	for _, disk := range []*memfs.FS{w.fs.Clone(), w.fs.Crash(memfs.KeepNone, nil)} {
		opts := w.opts
		opts.FS = disk
		d, err := inside.Open(dir, &opts, work.Executor{Manual: true})
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		version := uint64(d.Engine.Store.Visible())
		if version < floor || version > w.m.Last() {
			return fmt.Errorf("checkpoint of commit %d, want %d to %d", version, floor, w.m.Last())
		}
		in, err := w.homeOf(d)
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		err = d.View(func(tx stoat.Txn) error { return compareWith(tx.In(in), w.m, version, inside.Txn(tx).NowMs()) })
		if err == nil {
			_, err = d.Check(context.Background(), stoat.CheckOptions{})
		}
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		if err := d.Close(); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// flushed reports whether everything visible is in tables. Then a checkpoint does not
// wait.
func (w *scheduleWorld) flushed() bool {
	v := w.db.Engine.Store.View()
	return w.db.Engine.Store.State().FlushedSeq >= w.db.Engine.Store.Visible() || len(v.Memtables) == 1 && v.Memtables[0].Len() == 0
}
