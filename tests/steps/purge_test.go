package steps

import (
	"bytes"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A transaction purges the old versions of a key and writes versions anew, one of them far below
// the others. That one is the only version at the discard point. In some layouts it begins a
// table of level 0. A merge then brings it together with old versions that only the tombstone
// in another table hides. These must not hide it.
func TestDiscard_KeepsWhatWasWrittenAfterAPurge(t *testing.T) {
	t.Parallel()
	for name, background := range map[string]bool{"compaction of a range": false, "background compaction": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone := 0
			for n := 256; n <= 704; n += 32 {
				if purgeAndDiscard(t, n, background) {
					alone++
				}
			}
			if alone == 0 {
				t.Error("the version began a table of level 0 in no layout")
			}
		})
	}
}

// purgeAndDiscard writes n new versions after a purge, and checks what a reader at the discard
// point finds in the end. It reports whether the version there begins a table of level 0.
func purgeAndDiscard(t *testing.T, n int, background bool) (alone bool) {
	t.Helper()
	const versions, point, late = 20_000, 10_000, 30
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable}, work.Executor{Manual: true})
	testkit.Must(t, err)
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	key, filler := []byte("k"), bytes.Repeat([]byte("x"), 200)
	update := func(fn func(tx stoat.Txn) error) {
		t.Helper()
		testkit.Must(t, db.Update(fn))
	}
	update(func(tx stoat.Txn) error {
		for at := uint64(1); at <= versions; at++ {
			if err := tx.In(ks).At(at).Set(key, filler); err != nil {
				return err
			}
		}
		return nil
	})
	mustFlush(t, db)
	mustMergeAll(t, db)
	update(func(tx stoat.Txn) error {
		if err := tx.In(ks).At(0).PurgeRange([]byte("k"), []byte("l")); err != nil {
			return err
		}
		for i := range n {
			if err := tx.In(ks).At(uint64(versions-i)).Set(key, filler); err != nil {
				return err
			}
		}
		if err := tx.In(ks).At(late).Set(key, []byte("late")); err != nil {
			return err
		}
		return tx.In(ks).At(5).Set([]byte("m"), []byte("other"))
	})
	if !background {
		testkit.Must(t, ks.DiscardBelow(point))
	}
	mustFlush(t, db)
	v := db.Engine.Store.Version()
	space := v.Levels[len(v.Levels)-1][0].Smallest[:2] // what all keys of the keyspace begin with
	first := stamp.Append(bytes.Clone(space), key, late)
	for _, table := range v.Levels[0] {
		alone = alone || bytes.Equal(table.Smallest, first)
	}
	mergeFrom(t, db, stamp.Append(bytes.Clone(space), []byte("m"), ^uint64(0)))
	if background {
		testkit.Must(t, ks.DiscardBelow(point))
		for due := true; due; {
			due, err = db.Engine.Jobs.Tidy(work.Busy)
			testkit.Must(t, err)
		}
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if got, err := tx.In(ks).At(point).Get(key); err != nil || string(got) != "late" {
			t.Errorf("with %d new versions, the discard point has %.20q, %v", n, got, err)
		}
		return nil
	}))
	testkit.Must(t, db.Close())
	return alone
}

// mergeFrom merges the tables with keys from lo on into one level.
func mergeFrom(t *testing.T, db *inside.DB, lo []byte) {
	t.Helper()
	db.Engine.Jobs.Compacting.Lock()
	defer db.Engine.Jobs.Compacting.Unlock()
	for {
		shape := db.Engine.Jobs.Shape(work.Busy, db.Engine.Store.Horizon())
		plan, due := compact.PickRange(db.Engine.Store.Version(), shape, compact.Range{Lo: lo, UpTo: base.SeqNumMax, Next: 1 << 30})
		if !due {
			return
		}
		testkit.Must(t, db.Engine.Jobs.Run(plan, db.Engine.Group.Err, nil))
	}
}
