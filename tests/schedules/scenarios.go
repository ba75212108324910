package schedules

import (
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// scenarios are the meetings of collection, deletion, compaction, snapshots and
// iterators that went wrong in other databases.
var scenarios = []scenario{
	{
		fault:   "a deleted key comes back by a collection beside a compaction",
		points:  []work.Point{work.PointCreate, work.PointInstall, work.PointReplaced},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.mergeAll, w.collectAll)
			w.script("deleter", w.deleting("a"), w.rotateAndFlush)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 && did.flushes > 0 },
	},
	{
		fault:   "a collection beside a flush and a merge shows an iterator what was deleted, or not what it began with",
		points:  []work.Point{work.PointInstall},
		furnish: withBothGarbage,
		cast: func(w *scheduleWorld) {
			w.script("collector", w.collectAll)
			w.script("compactor", w.rotateAndFlush, w.mergeAll)
			w.script("deleter", w.deleting("a"))
			w.add("iterator", w.walksInTwo)
		},
		comesTo: func(did scheduleCounts) bool {
			return did.merges > 0 && did.collections > 0 && did.flushes > 0 && did.commits > 0 && did.iterators > 0
		},
	},
	{
		fault:   "a collection and a merge give back at the same time what a snapshot has not read yet",
		points:  []work.Point{work.PointReplaced, work.PointDiscarded},
		furnish: withBothGarbage,
		cast: func(w *scheduleWorld) {
			w.script("collector", w.collectAll)
			w.script("compactor", w.mergeAll)
			w.add("reader", w.readsValueLater)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 },
	},
	{
		fault:  "a deleted key comes back because a compaction passed over a level",
		points: []work.Point{work.PointInstall},
		furnish: func(w *scheduleWorld) error {
			return inTurn(w.setting(long, "a", "b"), w.rotateAndFlush, w.sinkAll,
				w.setting(long, "a"), w.rotateAndFlush, w.mergeOnce, w.setting(long, "a"), w.rotateAndFlush)
		},
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.mergeOnce, w.mergeOnce)
			w.script("deleter", w.deleting("a"), w.rotateAndFlush)
			w.reads("reader", "a")
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 && did.between > 0 },
	},
	{
		fault:   "a pointer leads to a value file that was removed",
		points:  []work.Point{work.PointCreate, work.PointEdited, work.PointReplaced, work.PointDiscarded},
		furnish: withKnownGarbage,
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.collectAll)
			w.add("reader", w.readsValueLater)
			w.script("sweeper", w.sweeping)
		},
		comesTo: func(did scheduleCounts) bool { return did.collections > 0 },
	},
	{
		fault:   "a value file is removed under an open iterator",
		points:  []work.Point{work.PointReplaced, work.PointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.add("iterator", w.walks)
			w.script("compactor", w.mergeAll, w.collectAll)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 },
	},
	{
		fault:   "a reader loads what is replaced before it can announce that it reads it",
		points:  []work.Point{work.PointLoaded, work.PointEdited, work.PointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.reads("reader", "a")
			w.script("compactor", w.mergeAll)
			w.script("writer", w.setting(long, "a"), w.rotateAndFlush)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 },
	},
	{
		fault:   "a state is loaded with a file that is removed before the reader has announced it",
		points:  []work.Point{work.PointStated, work.PointEdited},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("checker", w.check)
			w.script("compactor", w.mergeAll, w.setting(long, "a"), w.rotateAndFlush, w.mergeAll)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 },
	},
	{
		fault:  "a range deletion hides keys from a snapshot taken before it",
		points: []work.Point{work.PointApplied, work.PointInstall},
		furnish: func(w *scheduleWorld) error {
			return inTurn(w.setting(long, "a", "b"), w.rotateAndFlush, w.setting(short, "b", "c"), w.rotateAndFlush)
		},
		cast: func(w *scheduleWorld) {
			w.script("deleter", w.deletingRange("a", "c"), w.rotateAndFlush)
			w.script("compactor", w.mergeAll)
			w.reads("reader", "b", "c")
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 },
	},
	{
		fault:  "a flush takes away what a snapshot has not looked up yet",
		points: []work.Point{work.PointApplied, work.PointCreate, work.PointEdited},
		furnish: func(w *scheduleWorld) error {
			return inTurn(w.setting(long, "a"), w.setting(short, "b"))
		},
		cast: func(w *scheduleWorld) {
			w.script("writer", w.setting(long, "a", "b"))
			w.script("flusher", w.rotateAndFlush)
			w.reads("reader", "a", "b")
		},
		comesTo: func(did scheduleCounts) bool { return did.flushes > 0 },
	},
	{
		fault:   "a value file is collected before its transaction is in tables",
		points:  []work.Point{work.PointCreate, work.PointEdited, work.PointApplied},
		furnish: withKnownGarbage,
		cast: func(w *scheduleWorld) {
			w.script("writer", w.settingApart("e"))
			w.script("compactor", w.collectDueFiles, w.collectDueFiles)
			w.script("flusher", w.rotateAndFlush)
		},
		comesTo: func(did scheduleCounts) bool { return did.collections > 0 && did.flushes > 0 },
	},
	{
		fault:   "a crash in a merge or a collection loses what is garbage, or a file",
		points:  []work.Point{work.PointPicked, work.PointCreate, work.PointInstall, work.PointEdited, work.PointReplaced, work.PointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.mergeAll, w.collectAll, w.collectAll)
			w.script("power", w.cutsInAllWays)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 && did.crashes > 0 },
	},
	{
		fault:   "a crash between a value file, its commit and its flush",
		points:  []work.Point{work.PointCreate, work.PointInstall, work.PointEdited, work.PointApplied, work.PointReplaced},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("writer", w.settingApart("e"), w.deleting("a"), w.rotateAndFlush)
			w.script("power", w.cutsInAllWays)
		},
		comesTo: func(did scheduleCounts) bool { return did.flushes > 0 && did.crashes > 0 },
	},
	{
		fault:   "a checkpoint lacks a file that a job has replaced",
		points:  []work.Point{work.PointCopy, work.PointEdited, work.PointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.add("checkpointer", w.checkpoint)
			w.script("compactor", w.mergeAll, w.collectAll)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 && did.checkpoints > 0 },
	},
	{
		fault:  "a part of a transaction is seen",
		points: []work.Point{work.PointApplied},
		furnish: func(w *scheduleWorld) error {
			return inTurn(w.setting(short, "a", "b"), w.rotateAndFlush)
		},
		cast: func(w *scheduleWorld) {
			w.script("writer", w.setting(long, "a", "b"))
			w.script("deleter", w.deleting("a", "b"))
			w.script("rotator", w.rotate)
			w.reads("reader", "a", "b")
		},
		comesTo: func(did scheduleCounts) bool { return did.commits > 0 },
	},
	{
		fault:  "a flush takes what no reader may see yet",
		points: []work.Point{work.PointApplied, work.PointPicked},
		furnish: func(w *scheduleWorld) error {
			return inTurn(w.setting(long, "a"), w.setting(short, "b", "c"))
		},
		cast: func(w *scheduleWorld) {
			w.script("deleter", w.deletingRange("a", "c"))
			w.script("writer", w.setting(short, "a", "c"))
			w.script("flusher", w.rotateAndFlush)
			w.reads("reader", "a")
		},
		comesTo: func(did scheduleCounts) bool { return did.flushes > 0 },
	},
	{
		fault:   "what was deleted, and set again while it was merged, is gone",
		points:  []work.Point{work.PointCreate, work.PointInstall, work.PointEdited},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.mergeAll)
			w.script("writer", w.deleting("a", "b"), w.setting(long, "a"), w.rotateAndFlush)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 },
	},
}

// withGarbage makes two value files and two runs of tables. What the newer run
// has replaced is garbage, and no merge has found it yet.
func withGarbage(w *scheduleWorld) error {
	return inTurn(w.setting(long, "a", "b", "c"), w.rotateAndFlush, w.sinkAll,
		w.setting(long, "b", "c"), w.deleting("d"), w.rotateAndFlush)
}

// withKnownGarbage makes value files with garbage that a merge has found.
func withKnownGarbage(w *scheduleWorld) error {
	return inTurn(func() error { return withGarbage(w) }, w.sinkAll)
}

// withBothGarbage makes a value file with garbage that a merge has found, and a run of
// tables that has replaced more of it. So there is something to collect and something
// to merge.
func withBothGarbage(w *scheduleWorld) error {
	return inTurn(w.setting(long, "a", "b", "c"), w.rotateAndFlush, w.sinkAll,
		w.deleting("b"), w.rotateAndFlush, w.sinkAll,
		w.setting(short, "c"), w.rotateAndFlush)
}

// inTurn does one deed after the other.
func inTurn(deeds ...func() error) error {
	for _, do := range deeds {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// script adds an actor that does one deed after the other, with a point between
// two.
func (w *scheduleWorld) script(name string, deeds ...func() error) {
	w.add(name, func(a *actor) error {
		for i, do := range deeds {
			if i > 0 {
				if err := a.stop(pointBetween); err != nil {
					return nil
				}
			}
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// writing returns a deed: a transaction of the running actor.
func (w *scheduleWorld) writing(write func(t *scheduleTxn) error) func() error {
	return func() error { return w.update(w.running, true, write) }
}

func (w *scheduleWorld) setting(size int, keys ...string) func() error {
	return w.writing(func(t *scheduleTxn) error { return t.each(keys, func(key string) error { return t.set(key, size) }) })
}

func (w *scheduleWorld) settingApart(keys ...string) func() error {
	return w.writing(func(t *scheduleTxn) error {
		return t.each(keys, func(key string) error { return t.setApart(key, long) })
	})
}

func (w *scheduleWorld) deleting(keys ...string) func() error {
	return w.writing(func(t *scheduleTxn) error { return t.each(keys, t.delete) })
}

func (w *scheduleWorld) deletingRange(lo, hi string) func() error {
	return w.writing(func(t *scheduleTxn) error { return t.deleteRange(lo, hi) })
}

func (t *scheduleTxn) each(keys []string, do func(key string) error) error {
	for _, key := range keys {
		if err := do(key); err != nil {
			return err
		}
	}
	return nil
}

// reads adds a reader of some keys, with a point between the two halves of its
// beginning and before each key but the first.
func (w *scheduleWorld) reads(name string, keys ...string) {
	w.add(name, func(a *actor) error {
		return w.read(a, func(t *scheduleTxn) error {
			for i, key := range keys {
				if i > 0 {
					if err := a.stop(pointBetween); err != nil {
						return nil
					}
				}
				if err := t.get(key); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// readsValueLater looks a key up, and asks for its value after a point.
func (w *scheduleWorld) readsValueLater(a *actor) error {
	return w.read(a, func(t *scheduleTxn) error {
		item, err := t.tx.GetItem([]byte("a"))
		if err != nil {
			return err
		}
		if err := a.stop(pointBetween); err != nil {
			return nil
		}
		got, err := item.Value()
		if want, _ := t.mt.Get("a"); err != nil || settled(got) != want.Value {
			return fmt.Errorf("value of an item: %q, %v, want %q", got, err, want.Value)
		}
		return nil
	})
}

// walks iterates over everything, with a point before each key but the first.
func (w *scheduleWorld) walks(a *actor) error {
	return w.read(a, func(t *scheduleTxn) error {
		it := t.iterate(stoat.IterOptions{Prefetch: -1})
		defer it.close()
		for {
			if err := it.next(); err != nil || !it.of.Valid() {
				return err
			}
			if err := a.stop(pointBetween); err != nil {
				return nil
			}
		}
	})
}

// walksInTwo iterates over everything, with a point behind the first key.
func (w *scheduleWorld) walksInTwo(a *actor) error {
	return w.read(a, func(t *scheduleTxn) error {
		it := t.iterate(stoat.IterOptions{Prefetch: -1})
		defer it.close()
		for n := 0; ; n++ {
			if err := it.next(); err != nil || !it.of.Valid() {
				return err
			}
			if n > 0 {
				continue
			}
			if err := a.stop(pointBetween); err != nil {
				return nil
			}
		}
	})
}

func (w *scheduleWorld) sweeping() error { w.db.Engine.Store.Sweep(); return nil }

// mergeOnce does the most urgent merge of a tree of a small shape.
func (w *scheduleWorld) mergeOnce() error { return w.compact(true) }

// mergeAll merges level 0 with what lies below it.
func (w *scheduleWorld) mergeAll() error {
	did, err := w.sink(compact.Range{UpTo: base.SeqNumMax})
	if did {
		w.did.merges++
	}
	return err
}

// sinkAll brings everything to the last level.
func (w *scheduleWorld) sinkAll() error {
	for {
		if did, err := w.sink(compact.Range{UpTo: base.SeqNumMax}); !did || err != nil {
			return err
		}
	}
}

// collectAll rewrites every value file that has garbage.
func (w *scheduleWorld) collectAll() error { return w.collect(true) }

// collectDueFiles does what an idle database does about garbage.
func (w *scheduleWorld) collectDueFiles() error { return w.collect(false) }

// cutsInAllWays cuts the power of copies of the disk in all ways, one after the
// other, and kills the process.
func (w *scheduleWorld) cutsInAllWays() error {
	rng := rand.New(rand.NewPCG(uint64(len(w.story)), 7))
	for _, kind := range memfs.CrashKinds() {
		if err := w.tryDisk(w.fs.Crash(kind, rng), w.durable); err != nil {
			return fmt.Errorf("crash %q: %w", kind, err)
		}
	}
	return w.tryDisk(w.fs.Clone(), w.known)
}
