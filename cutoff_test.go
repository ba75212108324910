package stoat_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An Open that is cut off, at each of its steps and in every way.

// cutOff opens a database on a copy of a disk, commits and closes it, and cuts
// the power, or kills the process, before each step that changes the disk. Each
// time the next Open must find the items.
func cutOff(t *testing.T, what string, disk *memfs.FS, items map[string]string) {
	t.Helper()
	disk = disk.Clone()
	rng := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex // work behind changes the disk, too
	cuts := 0
	committed := false
	look := func(when string, left *memfs.FS, killed bool) {
		cuts++
		db, err := stoat.Open(dbDir, &stoat.Options{FS: left, MemtableSize: 128 << 10})
		if err != nil {
			t.Errorf("%s, %s: %v", what, when, err)
			return
		}
		got := itemsOf(t, db)
		if _, found := got["after"]; found && committed {
			delete(got, "after")
		}
		if len(got) != len(items) {
			t.Errorf("%s, %s: %d items, want %d", what, when, len(got), len(items))
		}
		for key, value := range items {
			if got[key] != value {
				t.Errorf("%s, %s: %s has %d bytes, want %d", what, when, key, len(got[key]), len(value))
			}
		}
		setKeys(t, db, "next")
		kept := left.Crash(memfs.KeepNone, nil)
		must(t, db.Close())
		if !killed {
			return
		}
		// The process that died has left things that no sync has covered.
		db, err = stoat.Open(dbDir, &stoat.Options{FS: kept, ReadOnly: true})
		if err != nil {
			t.Errorf("%s, %s, then a commit and a power cut: %v", what, when, err)
			return
		}
		if got := itemsOf(t, db); got["next"] == "" || len(got) < len(items)+1 {
			t.Errorf("%s, %s, then a commit and a power cut: %d items", what, when, len(got))
		}
		must(t, db.Close())
	}
	disk.SetHook(func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		look(fmt.Sprintf("killed before %v", op), disk.Clone(), true)
		kinds := memfs.CrashKinds()
		if testing.Short() { // one after the other
			kinds = kinds[cuts%len(kinds):][:1]
		}
		for _, kind := range kinds {
			look(fmt.Sprintf("power cut (%s) before %v", kind, op), disk.Crash(kind, rng), false)
		}
	})
	db := openOn(t, disk, nil)
	mu.Lock()
	committed = true
	mu.Unlock()
	setKeys(t, db, "after")
	disk.SetHook(nil)
	must(t, db.Close())
	if cuts == 0 {
		t.Errorf("%s: nothing was cut off", what)
	}
	t.Logf("%s: %d times", what, cuts)
}

func TestTheFirstOpenMayBeCutOffAtAnyStep(t *testing.T) {
	t.Parallel()
	cutOff(t, "no directory", memfs.New(), nil)
	disk := memfs.New()
	must(t, disk.MkdirAll(dbDir))
	cutOff(t, "an empty directory", disk, nil)
}

func TestRecoveryMayBeCutOffAtAnyStep(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, nil)
	setAll(t, db, 0, 300, 900, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	setAll(t, db, 200, 320, 100, 2)
	must(t, db.Sync())
	items := itemsOf(t, db)
	killed, cut := disk.Clone(), disk.Crash(memfs.KeepNone, nil)
	// What unfinished work has left, too.
	for _, name := range []string{"000900.table", "000901.values"} {
		f, err := killed.Create(killed.Join(dbDir, name), vfs.CatTable)
		must(t, err)
		must(t, f.Close())
	}
	must(t, db.Close())
	cutOff(t, "after a kill", killed, items)
	cutOff(t, "after a power cut", cut, items)
	cutOff(t, "after a clean close", disk, items)
}

// A tail of the log that no sync has covered is found after a kill. Once an Open
// has shown it, no power cut takes it away.
func TestWhatRecoveryHasShownNoPowerCutTakes(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, nil)
	setKeys(t, db, "synced")
	must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte("buffered"), nil) }, stoat.WithDurability(stoat.Buffered)))
	killed := disk.Clone()
	must(t, db.Close())
	db = openOn(t, killed, nil)
	if got := itemsOf(t, db); len(got) != 2 {
		t.Errorf("%d items after a kill", len(got))
	}
	for _, kind := range memfs.CrashKinds() {
		left := openOn(t, killed.Crash(kind, rand.New(rand.NewPCG(1, 2))), nil)
		if got := itemsOf(t, left); len(got) != 2 {
			t.Errorf("%d items after a kill, an Open and a power cut (%s)", len(got), kind)
		}
		must(t, left.Close())
	}
	must(t, db.Close())
}

// Sync and Close are promises about the device, whatever the commits before
// them did and whether there are any.
func TestSyncAndCloseLeaveNothingToAPowerCut(t *testing.T) {
	t.Parallel()
	for name, promise := range map[string]func(*stoat.DB) error{
		"Sync":  (*stoat.DB).Sync,
		"Close": (*stoat.DB).Close,
		"a synced commit after it": func(db *stoat.DB) error {
			return db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte("other"), nil) }, stoat.WithDurability(stoat.Synced))
		},
	} {
		for _, n := range []int{1, 40} {
			disk := memfs.New()
			db := openOn(t, disk, func(o *stoat.Options) { o.Durability = stoat.Buffered })
			want := map[string]bool{}
			for i := range n {
				key := fmt.Sprintf("key-%03d", i)
				want[key] = true
				must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte(key), make([]byte, 5000)) }))
			}
			must(t, promise(db))
			left := disk.Crash(memfs.KeepNone, nil)
			must(t, db.Close())
			again := openOn(t, left, nil)
			must(t, again.View(func(tx *stoat.Txn) error {
				for key := range want {
					if ok, err := tx.Has([]byte(key)); err != nil || !ok {
						t.Errorf("%s, %d commits: %s is gone: %v", name, n, key, err)
					}
				}
				return nil
			}))
			must(t, again.Close())
		}
	}
}

// The numbers by which garbage is found are known again after a crash, and what
// was garbage can be given back.
func TestGarbageThatWasCountedIsKnownAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // or the database might find it idle, and collect
		disk := memfs.New()
		quiet := func(o *stoat.Options) { o.Clock = newTestClock() }
		db := openOn(t, disk, quiet)
		setAll(t, db, 0, 400, 2000, 1)
		must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		// So little of each file that a busy database leaves it.
		for i := 0; i < 400; i += 10 {
			setAll(t, db, i, i+1, 2000, 2)
		}
		must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: treeKey(0), Upper: treeKey(400)}))
		before := db.Stats()
		if before.ValueGarbage == 0 {
			t.Fatal("there is no garbage")
		}
		cut, killed := disk.Crash(memfs.KeepNone, nil), disk.Clone()
		must(t, db.Close())
		for what, disk := range map[string]*memfs.FS{"a power cut": cut, "a kill": killed} {
			db := openOn(t, disk, quiet)
			if s := db.Stats(); s.ValueGarbage != before.ValueGarbage || s.ValueBytes != before.ValueBytes {
				t.Errorf("after %s: %d bytes of %d are garbage, before: %d of %d",
					what, s.ValueGarbage, s.ValueBytes, before.ValueGarbage, before.ValueBytes)
			}
			mustBeSound(t, db)
			must(t, db.Collect(t.Context()))
			if s := db.Stats(); s.ValueGarbage != 0 {
				t.Errorf("after %s and Collect: %d bytes are garbage", what, s.ValueGarbage)
			}
			must(t, db.Close())
		}
	})
}
