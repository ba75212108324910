package stoat

import (
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// scenarios are the meetings of collection, deletion, compaction, snapshots and
// iterators that have gone wrong elsewhere.
var scenarios = []scenario{
	{
		fault:   "a deleted key comes back by a collection beside a compaction",
		points:  []point{pointCreate, pointInstall, pointReplaced},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.mergeAll, w.collectAll)
			w.script("deleter", w.deleting("a"), w.rotateAndFlush)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 && did.flushes > 0 },
	},
	{
		fault:   "a collection beside a flush and a merge shows an iterator what was deleted, or not what it began with",
		points:  []point{pointInstall},
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
		points:  []point{pointReplaced, pointDiscarded},
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
		points: []point{pointInstall},
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
		points:  []point{pointCreate, pointEdited, pointReplaced, pointDiscarded},
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
		points:  []point{pointReplaced, pointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.add("iterator", w.walks)
			w.script("compactor", w.mergeAll, w.collectAll)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 },
	},
	{
		fault:   "a reader loads what is replaced before it can tell that it reads it",
		points:  []point{pointLoaded, pointEdited, pointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.reads("reader", "a")
			w.script("compactor", w.mergeAll)
			w.script("writer", w.setting(long, "a"), w.rotateAndFlush)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 },
	},
	{
		fault:   "a state is loaded with a file that is removed before anybody can know who reads it",
		points:  []point{pointStated, pointEdited},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("checker", w.check)
			w.script("compactor", w.mergeAll, w.setting(long, "a"), w.rotateAndFlush, w.mergeAll)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 },
	},
	{
		fault:  "a range deletion hides keys from a snapshot taken before it",
		points: []point{pointApplied, pointInstall},
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
		points: []point{pointApplied, pointCreate, pointEdited},
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
		points:  []point{pointCreate, pointEdited, pointApplied},
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
		points:  []point{pointPicked, pointCreate, pointInstall, pointEdited, pointReplaced, pointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.mergeAll, w.collectAll, w.collectAll)
			w.script("power", w.cutsInAllWays)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 && did.crashes > 0 },
	},
	{
		fault:   "a crash between a value file, its commit and its flush",
		points:  []point{pointCreate, pointInstall, pointEdited, pointApplied, pointReplaced},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("writer", w.settingApart("e"), w.deleting("a"), w.rotateAndFlush)
			w.script("power", w.cutsInAllWays)
		},
		comesTo: func(did scheduleCounts) bool { return did.flushes > 0 && did.crashes > 0 },
	},
	{
		fault:   "a checkpoint lacks a file that a job has replaced",
		points:  []point{pointCopy, pointEdited, pointDiscarded},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.add("checkpointer", w.checkpoint)
			w.script("compactor", w.mergeAll, w.collectAll)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.collections > 0 && did.checkpoints > 0 },
	},
	{
		fault:  "a part of a transaction is seen",
		points: []point{pointApplied},
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
		fault:  "a flush takes what nobody may see yet",
		points: []point{pointApplied, pointPicked},
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
		points:  []point{pointCreate, pointInstall, pointEdited},
		furnish: withGarbage,
		cast: func(w *scheduleWorld) {
			w.script("compactor", w.mergeAll)
			w.script("writer", w.deleting("a", "b"), w.setting(long, "a"), w.rotateAndFlush)
		},
		comesTo: func(did scheduleCounts) bool { return did.merges > 0 && did.flushes > 0 },
	},
}

// withGarbage makes two value files and two runs of tables. What the newer run
// has replaced is garbage that nobody knows of yet.
func withGarbage(w *scheduleWorld) error {
	return inTurn(w.setting(long, "a", "b", "c"), w.rotateAndFlush, w.sinkAll,
		w.setting(long, "b", "c"), w.deleting("d"), w.rotateAndFlush)
}

// withKnownGarbage makes value files with garbage, for all to see.
func withKnownGarbage(w *scheduleWorld) error {
	return inTurn(func() error { return withGarbage(w) }, w.sinkAll)
}

// withBothGarbage makes a value file with garbage for all to see, and a run of tables
// that has replaced more of it, of which nobody knows yet: there is something to
// collect and something to merge.
func withBothGarbage(w *scheduleWorld) error {
	return inTurn(w.setting(long, "a", "b", "c"), w.rotateAndFlush, w.sinkAll,
		w.deleting("b"), w.rotateAndFlush, w.sinkAll,
		w.setting(short, "c"), w.rotateAndFlush)
}

// inTurn does one thing after the other.
func inTurn(deeds ...func() error) error {
	for _, do := range deeds {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// script adds an actor that does one thing after the other, with a point before
// each.
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

// writing returns a deed: a transaction of whoever runs.
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

// reads adds a reader of some keys. Between the first and the second half of its
// beginning, and before each key but the first, others may come in.
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

// readsValueLater looks a key up and asks for its value later.
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
		if want, _ := t.mt.Get("a"); err != nil || string(got) != want.Value {
			return fmt.Errorf("value of an item: %q, %v, want %q", got, err, want.Value)
		}
		return nil
	})
}

// walks iterates over everything, with a point before each key but the first.
func (w *scheduleWorld) walks(a *actor) error {
	return w.read(a, func(t *scheduleTxn) error {
		it := t.iterate(IterOptions{Prefetch: -1})
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
		it := t.iterate(IterOptions{Prefetch: -1})
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

func (w *scheduleWorld) sweeping() error { w.db.sweep(); return nil }

// mergeOnce does what is most due in a tree of a small shape.
func (w *scheduleWorld) mergeOnce() error { return w.compact(true) }

// mergeAll merges level 0 with what lies below it.
func (w *scheduleWorld) mergeAll() error {
	c := compaction{db: w.db, stop: w.db.stopped, upTo: base.SeqNumMax}
	did, err := c.inTurn(&w.db.compacting, c.sink)
	if did {
		w.did.merges++
	}
	return err
}

// sinkAll brings everything to the last level.
func (w *scheduleWorld) sinkAll() error {
	c := compaction{db: w.db, stop: w.db.stopped, upTo: base.SeqNumMax}
	return c.each(&w.db.compacting, c.sink)
}

// collectAll rewrites every value file that has garbage.
func (w *scheduleWorld) collectAll() error { return w.collect(true) }

// collectDueFiles does what an idle database does about garbage.
func (w *scheduleWorld) collectDueFiles() error { return w.collect(false) }

// cutsInAllWays cuts the power in all ways, one after the other, of copies of the
// disk, and kills the process.
func (w *scheduleWorld) cutsInAllWays() error {
	rng := rand.New(rand.NewPCG(uint64(len(w.story)), 7))
	for _, kind := range memfs.CrashKinds() {
		if err := w.tryDisk(w.fs.Crash(kind, rng), w.durable); err != nil {
			return fmt.Errorf("crash %q: %w", kind, err)
		}
	}
	return w.tryDisk(w.fs.Clone(), w.known)
}
