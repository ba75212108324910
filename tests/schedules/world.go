package schedules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A scheduleWorld is a database, the disk it is on, and the model of what it
// must hold, under a schedule.
type scheduleWorld struct {
	*schedule
	fs   *memfs.FS
	opts stoat.Options
	db   *inside.DB
	m    *model.Map
	// home says that all keys are of a keyspace, which is in. Otherwise they are of the
	// default keyspace, and in is nil.
	home bool
	in   *stoat.Keyspace
	// side is a second keyspace, or nil. deletion is the number of the newest commit that
	// deleted a dropped one, and owed says that a crash took it.
	side     *sideSpace
	deletion uint64
	owed     bool
	aside    bool // actors create and drop side keyspaces
	filters  bool // the keys have a compaction filter, which rewrites and drops values
	// clock goes on between turns, and never goes back.
	clock *scheduleClock

	// known is the newest commit that was acknowledged, durable the newest that no
	// power cut may lose.
	known, durable uint64
	values         int
	openings       int // each has another compression than the one before
	checkpoints    int
	live           collect.LiveSet // of the collections since the opening
	order          []*actor        // those that have applied and not published, in order
	did            scheduleCounts
}

// scheduleCounts count what schedules did, so that a test can tell whether they do
// everything.
type scheduleCounts struct {
	turns, commits, conflicts, flushes, merges, moves, drops, cuts, collections, gatherings int
	reads, iterators, checkpoints, crashes, closings                                        int
	// between counts the schedules that end with tables between level 0 and the
	// last level.
	between int
	// asides counts reads of side keyspaces, dropped and forgotten such keyspaces.
	asides, dropped, forgotten int
	settled, doomed            int // rewritten and dropped by the filter
}

func (c *scheduleCounts) add(o scheduleCounts) {
	c.turns += o.turns
	c.commits += o.commits
	c.conflicts += o.conflicts
	c.flushes += o.flushes
	c.merges += o.merges
	c.moves += o.moves
	c.collections += o.collections
	c.gatherings += o.gatherings
	c.drops += o.drops
	c.cuts += o.cuts
	c.reads += o.reads
	c.iterators += o.iterators
	c.checkpoints += o.checkpoints
	c.crashes += o.crashes
	c.closings += o.closings
	c.between += o.between
	c.asides += o.asides
	c.dropped += o.dropped
	c.forgotten += o.forgotten
	c.settled += o.settled
	c.doomed += o.doomed
}

const (
	scheduleDir = "/db"
	// scheduleMemtable is the size of memtables in bytes. It is small to save memory.
	// They never become full, because actors rotate.
	scheduleMemtable = 256 << 10
	// scheduleApart is the length in bytes from which values lie in value files.
	scheduleApart = settings.ValueThresholdMin
)

// scheduleTail is the merge function of schedules.
var scheduleTail = model.Tail{Keep: 400}

func newScheduleWorld(choose func(able []*actor) *actor, versions int) *scheduleWorld {
	w := &scheduleWorld{fs: memfs.New(), m: model.NewMap(), clock: new(scheduleClock)}
	w.clock.ms.Store(1_000_000)
	w.m.Versions = versions
	w.opts = stoat.Options{Clock: w.clock, MemtableSize: scheduleMemtable, ValueThreshold: scheduleApart, NumVersions: versions, Durability: stoat.Buffered,
		MergeFunction: scheduleTail.Name(), MergeFunctions: []stoat.MergeFunction{model.CombiningTail{Tail: scheduleTail}}}
	w.begin(choose)
	return w
}

// begin starts a schedule without actors.
func (w *scheduleWorld) begin(choose func(able []*actor) *actor) {
	var story []string
	if w.schedule != nil {
		story = w.story
	}
	w.schedule = newSchedule(choose)
	w.story = story
	w.blocked, w.applied, w.order = w.isBlocked, w.noteApplied, nil
}

// copied returns the same world apart from this one.
func (w *scheduleWorld) copied(choose func(able []*actor) *actor) *scheduleWorld {
	c := &scheduleWorld{fs: w.fs.Clone(), clock: w.clock, opts: w.opts, m: w.m.Clone(), home: w.home, filters: w.filters, known: w.known, durable: w.durable, values: w.values,
		side: w.side.copy(), deletion: w.deletion, owed: w.owed}
	c.begin(choose)
	return c
}

// open opens the database and goes on from its state, which must be that after the
// commit floor or a later one.
func (w *scheduleWorld) open(floor uint64) (err error) {
	w.opts.FS = w.fs
	w.opts.Compression = []stoat.Compression{stoat.CompressionNone, stoat.CompressionFast, stoat.CompressionSmall}[w.openings%3]
	w.openings++
	if w.db, err = inside.Open(scheduleDir, &w.opts, work.Executor{Manual: true, StepBytes: 1, Overlap: true, Reach: w.schedule.at}); err != nil {
		return err
	}
	w.live = collect.LiveSet{}
	if w.in, err = w.homeOf(w.db); err != nil {
		return err
	}
	version := uint64(w.db.Engine.Store.Visible())
	if version < floor || version > w.m.Last() {
		return fmt.Errorf("opened at commit %d, want %d to %d", version, floor, w.m.Last())
	}
	w.m.Truncate(version)
	w.known, w.durable = version, version // a reader may have seen it
	return w.openSide(version)
}

// homeOf returns the keyspace of all keys in a database. It creates the keyspace.
func (w *scheduleWorld) homeOf(d *inside.DB) (*stoat.Keyspace, error) {
	if !w.home {
		return nil, nil
	}
	return d.Keyspace("home", &stoat.KeyspaceOptions{NumVersions: w.m.Versions, ValueThreshold: scheduleApart, Compression: w.opts.Compression,
		MergeFunction: w.opts.MergeFunction, Filter: w.opts.Filter})
}

// isBlocked is schedule.blocked. The points say which locks are held there. No commit
// waits for a flush, because the active memtable is never full.
func (w *scheduleWorld) isBlocked(a *actor) bool {
	if p := a.pend; p != nil && p.seq == 0 && a.at != work.PointApplied && w.leaders() >= leadersMax {
		return true // its commit would wait for another one
	}
	switch {
	case a.installs:
		return slices.ContainsFunc(w.actors, func(o *actor) bool { return o.at == work.PointEdited })
	case a.at == work.PointApplied:
		return len(w.order) > 0 && w.order[0] != a // groups are published in order
	}
	return false
}

// A scheduleClock stands still during a turn.
type scheduleClock struct{ ms atomic.Uint64 }

// Now returns the time.
func (c *scheduleClock) Now() time.Time { return time.UnixMilli(int64(c.ms.Load())) }

// A pendingCommit is a transaction on its way through the pipeline.
type pendingCommit struct {
	model   *model.Txn
	side    *aside
	synced  bool
	seq     uint64
	refused bool // by the model
	// deletes is the keyspace whose drop commits. again says that the dropper repeats
	// such a commit.
	deletes *sideSpace
	again   bool
}

// conflicts reports whether the transaction may not commit at a time.
func (p *pendingCommit) conflicts(ms uint64) bool {
	return p.model.Lapsed(ms) || p.model.Conflicts() || p.side.conflicts()
}

// noteApplied gives the commit of a its number in the model as well.
func (w *scheduleWorld) noteApplied(a *actor) {
	if a.pend == nil {
		w.fault = errors.New("a commit of an actor that has not asked for one")
		a.pend = &pendingCommit{model: w.m.Begin(w.m.Last(), true)}
	}
	w.order = append(w.order, a)
	if w.newestInMemory() > w.m.Last() {
		p := a.pend
		if p.refused = p.conflicts(w.clock.ms.Load()); p.refused {
			return
		}
		if p.seq, _ = p.model.CommitAt(w.clock.ms.Load()); p.seq == 0 { // all writes are elsewhere
			p.seq = w.m.Commit(nil)
		}
		w.noteAside(p)
	}
}

// newestInMemory returns the version of the newest commit in the memtables, which
// readers may not see yet.
func (w *scheduleWorld) newestInMemory() uint64 {
	newest := base.SeqNum(0)
	for _, t := range w.db.Engine.Store.View().Memtables {
		newest = max(newest, t.LastSeq())
	}
	return uint64(newest)
}

// commit commits a transaction beside that of the model. Both must agree on
// whether it may.
func (w *scheduleWorld) commit(a *actor, t *scheduleTxn, synced bool) error {
	tx, mt := t.tx, t.mt
	if !mt.Dirty() && !t.side.dirty() {
		return tx.Commit()
	}
	if a != nil {
		if err := w.beginCommit(a, &pendingCommit{model: mt, side: t.side, synced: synced}); err != nil {
			return err
		}
	}
	durability := stoat.Buffered
	if synced {
		durability = stoat.Synced
	}
	err := tx.Commit(stoat.WithDurability(durability))
	if a == nil {
		return w.committed(tx, mt, synced, err)
	}
	if gone := a.gone(); gone != nil {
		return gone
	}
	p := a.pend
	w.endPending(a)
	switch {
	case errors.Is(err, stoat.ErrConflict) && p.seq == 0 && p.conflicts(w.clock.ms.Load()):
		w.did.conflicts++
		return nil
	case p.seq == 0 && p.side.refuses(err):
		return nil
	case err != nil:
		return fmt.Errorf("commit: %w", err)
	case p.refused:
		return errors.New("committed in spite of a conflict")
	case p.seq != tx.CommitVersion():
		return fmt.Errorf("commit got number %d, want %d", tx.CommitVersion(), p.seq)
	}
	w.acknowledge(p.seq, synced)
	return nil
}

// committed is the end of a commit of the goroutine that sets the scene.
func (w *scheduleWorld) committed(tx stoat.Txn, mt *model.Txn, synced bool, err error) error {
	if err != nil {
		return err
	}
	seq, ok := mt.CommitAt(w.clock.ms.Load())
	if !ok || seq != tx.CommitVersion() {
		return fmt.Errorf("commit got number %d, want %d", tx.CommitVersion(), seq)
	}
	w.acknowledge(seq, synced)
	return nil
}

func (w *scheduleWorld) acknowledge(seq uint64, synced bool) {
	w.did.commits++
	w.known = max(w.known, seq)
	if synced {
		w.durable = max(w.durable, seq)
	}
}

// leave ends the database and its actors without waiting for anything, as the end of
// the process would.
func (w *scheduleWorld) leave() {
	if w.db != nil {
		// No actor will flush any more, so no commit must wait for that.
		_ = w.db.Engine.Commits.Fail(errAbandoned)
	}
	w.abandon()
	if w.db != nil && !w.hangs {
		_ = w.db.Close() // this disk is not used again
	}
	w.db = nil
}

// crash cuts the power, or kills the process, and goes on with what is left.
func (w *scheduleWorld) crash(rng *rand.Rand) error {
	w.did.crashes++
	disk, floor := w.crashed(rng)
	w.leave()
	w.fs = disk
	w.begin(w.choose)
	return w.open(floor)
}

// crashed returns a disk as a crash leaves it, and what must be on it.
func (w *scheduleWorld) crashed(rng *rand.Rand) (*memfs.FS, uint64) {
	if rng.IntN(4) == 0 {
		return w.fs.Clone(), w.known
	}
	return testkit.RandomCut(rng)(w.fs), w.durable
}

// tryCrash checks what a crash would leave, and goes on as if there had been none.
func (w *scheduleWorld) tryCrash(rng *rand.Rand) error {
	return w.tryDisk(w.crashed(rng))
}

// tryDisk checks what is left of a disk, which must be the state after the commit
// floor or a later one.
func (w *scheduleWorld) tryDisk(disk *memfs.FS, floor uint64) error {
	w.did.crashes++
	c := w.copied(nil)
	c.fs = disk
	if err := c.open(floor); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	if err := c.verify(); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	return c.close()
}

// close closes the database. Its actors are idle or have ended.
func (w *scheduleWorld) close() error {
	w.did.closings++
	w.abandon()
	if err := w.db.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	w.db = nil
	w.durable = w.known
	return nil
}

// reopen closes the database and opens it again.
func (w *scheduleWorld) reopen() error {
	if err := w.finish(); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	w.begin(w.choose)
	return w.open(w.m.Last())
}

// check verifies every file, in the middle of what actors do.
func (w *scheduleWorld) check() error {
	_, err := w.db.Check(context.Background(), stoat.CheckOptions{})
	return err
}

// verify compares all that a new snapshot shows with the model, and checks the
// files.
func (w *scheduleWorld) verify() error {
	err := w.db.View(func(tx stoat.Txn) error {
		return compareWith(tx.In(w.in), w.m, tx.ReadVersion(), inside.Txn(tx).NowMs())
	})
	if err == nil {
		err = w.verifySide()
	}
	if err != nil {
		return err
	}
	return w.check()
}

// end ends the schedule. When all actors are idle, nothing may be lost and nothing
// left over. The same holds after another opening.
func (w *scheduleWorld) end() error {
	if err := w.finish(); err != nil {
		return err
	}
	if w.db.Engine.Spaces.Dropping() {
		if err := w.forgetDropped(); err != nil {
			return err
		}
	}
	w.db.Engine.Store.Sweep()
	if n := w.db.Engine.Store.Readers(); n != 0 {
		return fmt.Errorf("%d readers are left", n)
	}
	orphans, err := w.db.Engine.Store.Orphans()
	if err != nil || len(orphans) > 0 {
		return fmt.Errorf("files that nothing refers to: %v, %v", orphans, err)
	}
	if err := w.verify(); err != nil {
		return err
	}
	if err := w.reopen(); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return fmt.Errorf("after reopening: %w", err)
	}
	w.did.turns += len(w.story)
	w.did.between += w.between()
	return w.close()
}

// compareWith compares scans in both directions and lookups with the model.
func compareWith(tx stoat.Txn, m *model.Map, seq, nowMs uint64) error {
	want := m.Scan(seq, nowMs)
	for _, reverse := range []bool{false, true} {
		var got []model.Item
		it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
		for it.Next() {
			if !doomed(it.Value()) {
				got = append(got, itemOf(it))
			}
		}
		if err := it.Close(); err != nil {
			return err
		}
		if reverse {
			slices.Reverse(got)
		}
		if diff := model.Diff(got, want); diff != "" {
			return fmt.Errorf("scan of snapshot %d, reverse %t: %s", seq, reverse, diff)
		}
	}
	for _, key := range m.Keys() {
		want, ok := m.Get(key, seq, nowMs)
		if err := compareKey(tx, key, want, ok); err != nil {
			return err
		}
	}
	return nil
}

// compareKey looks a key up. It must be as want says if ok, and not found otherwise.
func compareKey(tx stoat.Txn, key string, want model.Version, ok bool) error {
	got, err := tx.Get([]byte(key))
	switch {
	case !ok && (errors.Is(err, stoat.ErrNotFound) || err == nil && doomed(got)):
		return nil
	case err != nil:
		return fmt.Errorf("get %s of snapshot %d: %w, want %v %t", key, tx.ReadVersion(), err, want, ok)
	case !ok:
		return fmt.Errorf("get %s of snapshot %d: %q, which is deleted", key, tx.ReadVersion(), got)
	case settled(got) != want.Value:
		return fmt.Errorf("get %s of snapshot %d: %q, want %q", key, tx.ReadVersion(), got, want.Value)
	}
	return nil
}

// itemOf returns what an iterator shows.
func itemOf(it stoat.Iterator) model.Item {
	i := it.Item()
	item := model.Item{Key: string(it.Key())}
	item.Seq, item.Deleted = i.Version(), i.Deleted() || doomed(it.Value())
	if at := i.ExpiresAt(); !at.IsZero() {
		item.ExpiresAt = uint64(at.UnixMilli())
	}
	if !item.Deleted {
		item.Value = settled(it.Value())
	}
	return item
}

// between returns 1 if there are tables between level 0 and the last level.
func (w *scheduleWorld) between() int {
	v := w.db.Engine.Store.Version()
	for level := 1; level < manifest.Levels-1; level++ {
		if len(v.Levels[level]) > 0 {
			return 1
		}
	}
	return 0
}

// smallShape is a tree of many levels for a few kilobytes.
func (w *scheduleWorld) smallShape(idle bool) compact.Shape {
	s := w.db.Engine.Jobs.Shape(work.Busy, w.db.Engine.Store.Horizon())
	s.Idle = idle
	s.BaseSizeMin, s.RunsMax, s.ValuesMin, s.TableSize = 256, 2, 512, 4<<10
	return s
}
