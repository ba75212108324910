package jobs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// A program that deletes in steps on a full disk gets space back from each of them.
func TestDeletions_OnAScarceDiskTheFlusherLooksAgainAfterASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, 256<<10)
		e.Update(func(w *commit.WriteSet) {
			for i := range 100 {
				key := []byte{byte(i)}
				e.Must(w.Pending.Set(key, make([]byte, 10_000), base.Hash(key, e.HashSeed), base.Meta{Kind: base.KindSet}, 0))
			}
		})
		e.Flush()
		remove := func(i byte) {
			e.Update(func(w *commit.WriteSet) {
				e.Must(w.Pending.Set([]byte{i}, []byte{i + 25}, 0, base.Meta{Kind: base.KindDeleteRange}, 0))
			})
		}
		remove(0)
		if due, _ := e.jobs.deletionsDue(false, true); !due {
			t.Fatal("a deletion of a quarter is not flushed")
		}
		e.Flush()
		for _, c := range []struct {
			scarce bool
			wait   time.Duration
			due    bool
		}{{false, 2 * time.Second, false}, {true, 0, true}, {true, 0, true}, {false, 0, true}} {
			if c.wait > 0 {
				time.Sleep(c.wait)
				remove(25)
			}
			if due, _ := e.jobs.deletionsDue(false, c.scarce); due != c.due {
				t.Errorf("scarce %t: another deletion is flushed: %t", c.scarce, due)
			}
		}
	})
}

func TestShape_SaysWhetherSpaceIsScarceAndNeedsNoMoreThen(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 256<<10)
	v := new(manifest.Version)
	v.Levels[0] = []*manifest.Table{{Num: 91, Run: 1, Smallest: []byte("a"), Largest: []byte("z"), Size: 64 << 10, Entries: 10, Deletions: 10, CreatedMs: e.Store.Now()}}
	v.Levels[6] = []*manifest.Table{{Num: 92, Level: 6, Smallest: []byte("a"), Largest: []byte("z"), Size: 16 << 20, Entries: 1 << 20}}
	before := int64(0)
	for _, scarce := range []bool{false, true} {
		if scarce {
			e.Space.WriteFailed(vfs.ErrNoSpace)
		}
		if s := e.jobs.Shape(work.Busy, e.Store.Horizon()); s.Scarce != scarce {
			t.Errorf("scarce %t: the shape says %t", scarce, s.Scarce)
		}
		need := e.jobs.Need(v, e.Store.Horizon())
		if scarce && need.Merge != before {
			t.Errorf("the next merge needs %d bytes while space is scarce, and %d before", need.Merge, before)
		}
		before = need.Merge
	}
}

// Spare segments of the log hold space that a writer may wait for.
func TestFlush_OnAScarceDiskLeavesNoSpareSegments(t *testing.T) {
	t.Parallel()
	for _, scarce := range []bool{false, true} {
		e := newEngine(t, 256<<10)
		for range 40 {
			e.Update(func(w *commit.WriteSet) {
				e.Must(w.Pending.Set([]byte("k"), make([]byte, 30_000), base.Hash([]byte("k"), e.HashSeed), base.Meta{Kind: base.KindSet}, 0))
			})
			_, err := e.jobs.FlushNext()
			e.Must(err)
		}
		if scarce {
			e.Space.WriteFailed(vfs.ErrNoSpace)
		}
		e.Flush()
		if free := e.Commits.LogStats().FreeFiles; (free == 0) != scarce {
			t.Errorf("scarce %t: the log has %d spare segments after the flush", scarce, free)
		}
	}
}
