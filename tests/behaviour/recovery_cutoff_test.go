package behaviour

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
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
	var mu sync.Mutex // background jobs change the disk, too
	cuts := 0
	committed := false
	look := func(when string, left *memfs.FS, killed bool) {
		cuts++
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: left, MemtableSize: 128 << 10})
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
		testkit.Must(t, db.Close())
		if !killed {
			return
		}
		// The process that died has left things that no sync has covered.
		db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: kept, ReadOnly: true})
		if err != nil {
			t.Errorf("%s, %s, then a commit and a power cut: %v", what, when, err)
			return
		}
		if got := itemsOf(t, db); got["next"] == "" || len(got) < len(items)+1 {
			t.Errorf("%s, %s, then a commit and a power cut: %d items", what, when, len(got))
		}
		testkit.Must(t, db.Close())
	}
	disk.SetHook(func(op vfs.Op) {
		// The hook runs under locks of the database. Lock ranks are checked for each
		// goroutine, so another goroutine opens the copies.
		var looking sync.WaitGroup
		looking.Go(func() {
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
		looking.Wait()
	})
	db := testkit.OpenOn(t, disk, nil)
	mu.Lock()
	committed = true
	mu.Unlock()
	setKeys(t, db, "after")
	disk.SetHook(nil)
	testkit.Must(t, db.Close())
	if cuts == 0 {
		t.Errorf("%s: nothing was cut off", what)
	}
	t.Logf("%s: %d times", what, cuts)
}

func TestFirstOpen_MayBeCutOffAtAnyStep(t *testing.T) {
	t.Parallel()
	cutOff(t, "no directory", memfs.New(), nil)
	disk := memfs.New()
	testkit.Must(t, disk.MkdirAll(testkit.Dir))
	cutOff(t, "an empty directory", disk, nil)
}

func TestRecovery_MayBeCutOffAtAnyStep(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 300, 900, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.SetKeys(t, db, 200, 320, 100, 2)
	testkit.Must(t, db.Sync())
	items := itemsOf(t, db)
	killed, cut := disk.Clone(), disk.Crash(memfs.KeepNone, nil)
	// What unfinished work has left, too.
	for _, name := range []string{"000900.table", "000901.values"} {
		f, err := killed.Create(killed.Join(testkit.Dir, name), vfs.CatTable)
		testkit.Must(t, err)
		testkit.Must(t, f.Close())
	}
	testkit.Must(t, db.Close())
	cutOff(t, "after a kill", killed, items)
	cutOff(t, "after a power cut", cut, items)
	cutOff(t, "after a clean close", disk, items)
}

// A tail of the log that no sync has covered is found after a kill. Once an Open
// has shown it, no power cut takes it away.
func TestRecovery_NoPowerCutTakesWhatItHasShown(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	setKeys(t, db, "synced")
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("buffered"), nil) }, stoat.WithDurability(stoat.Buffered)))
	killed := disk.Clone()
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, killed, nil)
	if got := itemsOf(t, db); len(got) != 2 {
		t.Errorf("%d items after a kill", len(got))
	}
	for _, kind := range memfs.CrashKinds() {
		left := testkit.OpenOn(t, killed.Crash(kind, rand.New(rand.NewPCG(1, 2))), nil)
		if got := itemsOf(t, left); len(got) != 2 {
			t.Errorf("%d items after a kill, an Open and a power cut (%s)", len(got), kind)
		}
		testkit.Must(t, left.Close())
	}
	testkit.Must(t, db.Close())
}

// Sync and Close are promises about the device, whatever the commits before
// them did and whether there are any.
func TestSyncAndClose_LeaveNothingToAPowerCut(t *testing.T) {
	t.Parallel()
	for name, promise := range map[string]func(*stoat.DB) error{
		"Sync":  (*stoat.DB).Sync,
		"Close": (*stoat.DB).Close,
		"a synced commit after it": func(db *stoat.DB) error {
			return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("other"), nil) }, stoat.WithDurability(stoat.Synced))
		},
	} {
		for _, n := range []int{1, 40} {
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Durability = stoat.Buffered })
			want := map[string]bool{}
			for i := range n {
				key := fmt.Sprintf("key-%03d", i)
				want[key] = true
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), make([]byte, 5000)) }))
			}
			testkit.Must(t, promise(db))
			left := disk.Crash(memfs.KeepNone, nil)
			testkit.Must(t, db.Close())
			again := testkit.OpenOn(t, left, nil)
			testkit.Must(t, again.View(func(tx stoat.Txn) error {
				for key := range want {
					if ok, err := tx.Has([]byte(key)); err != nil || !ok {
						t.Errorf("%s, %d commits: %s is gone: %v", name, n, key, err)
					}
				}
				return nil
			}))
			testkit.Must(t, again.Close())
		}
	}
}

// The numbers by which garbage is found are known again after a crash, and what
// was garbage can be given back.
func TestRecovery_KnowsGarbageThatWasCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // or the database might find it idle, and collect
		disk := memfs.New()
		quiet := func(o *stoat.Options) { o.Clock = testkit.NewClock() }
		db := testkit.OpenOn(t, disk, quiet)
		testkit.SetKeys(t, db, 0, 400, 2000, 1)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		// So little of each file that a busy database leaves it.
		for i := 0; i < 400; i += 10 {
			testkit.SetKeys(t, db, i, i+1, 2000, 2)
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: testkit.Key(0), Upper: testkit.Key(400)}))
		before := db.Stats()
		if before.ValueGarbage == 0 {
			t.Fatal("there is no garbage")
		}
		cut, killed := disk.Crash(memfs.KeepNone, nil), disk.Clone()
		testkit.Must(t, db.Close())
		for what, disk := range map[string]*memfs.FS{"a power cut": cut, "a kill": killed} {
			db := testkit.OpenOn(t, disk, quiet)
			if s := db.Stats(); s.ValueGarbage != before.ValueGarbage || s.ValueBytes != before.ValueBytes {
				t.Errorf("after %s: %d bytes of %d are garbage, before: %d of %d",
					what, s.ValueGarbage, s.ValueBytes, before.ValueGarbage, before.ValueBytes)
			}
			testkit.MustBeSound(t, db)
			testkit.Must(t, db.Collect(t.Context()))
			if s := db.Stats(); s.ValueGarbage != 0 {
				t.Errorf("after %s and Collect: %d bytes are garbage", what, s.ValueGarbage)
			}
			testkit.Must(t, db.Close())
		}
	})
}
