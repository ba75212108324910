package behaviour

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// TestFollower_SyncMakesDurableWhatItShows lets a follower sync before each sync of the
// writer, and after each buffered commit. A power cut then takes nothing that it showed.
func TestFollower_SyncMakesDurableWhatItShows(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f := follow(t, disk)
	shown, synced := map[string]bool{}, 0
	check := func() {
		testkit.Must(t, f.Sync())
		cut := disk.Crash(memfs.KeepNone, nil)
		left := testkit.OpenOn(t, cut, nil)
		want, got := allKeys(t, f), allKeys(t, left)
		testkit.Must(t, left.Close())
		if !strings.HasPrefix(got, want) { // keys only come
			t.Errorf("the power cut has left %d bytes of keys, the follower showed %d", len(got), len(want))
		}
		shown[want] = true
		synced++
	}
	var checking sync.Mutex
	disk.SetHook(func(op vfs.Op) {
		if op.Kind != vfs.OpSync && op.Kind != vfs.OpSyncData && op.Kind != vfs.OpSyncDir || !checking.TryLock() {
			return
		}
		defer checking.Unlock()
		done := make(chan struct{}) // locks are ranked by goroutine
		go func() {
			defer close(done)
			check()
		}()
		<-done
	})
	n := 0
	next := func() []byte { n++; return fmt.Appendf(nil, "key%05d", n) }
	rounds := testkit.Raced(40, 15)
	for i := range rounds {
		commit := func(d stoat.Durability) {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(next(), bytes.Repeat([]byte{'v'}, 30_000)) }, stoat.WithDurability(d)))
		}
		commit(stoat.Buffered)
		if checking.TryLock() {
			check()
			checking.Unlock()
		}
		commit(stoat.Synced)
		if i%5 == 0 {
			_, err := db.Ingest(t.Context(), func(yield func(k, v []byte) bool) { yield(next(), []byte("ingested")) }, stoat.IngestOptions{})
			testkit.Must(t, err)
		}
	}
	checking.Lock() // forever: a job in the background may sync until the database closes
	disk.SetHook(nil)
	if len(shown) < rounds || synced < 2*rounds {
		t.Errorf("the follower showed %d states in %d syncs", len(shown), synced)
	}
}

// allKeys returns all keys of a database.
func allKeys(t *testing.T, db *stoat.DB) (keys string) {
	testkit.Must(t, db.View(func(tx stoat.Txn) error { keys = keysOf(t, tx); return nil }))
	return keys
}

func TestFollower_BackupsContinueThoseOfTheWriter(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f := follow(t, disk)
	var chain []*bytes.Buffer
	var last stoat.BackupInfo
	for i, of := range []*stoat.DB{db, f, f, db, f} {
		set(t, db, fmt.Sprint("key", i), fmt.Sprint("value", i))
		set(t, db, "last", fmt.Sprint(i))
		if i == 2 {
			testkit.Must(t, db.DropPrefix(t.Context(), []byte("key0")))
		}
		var b bytes.Buffer
		info, err := of.Backup(t.Context(), &b, stoat.BackupOptions{Since: last})
		testkit.Must(t, err)
		chain, last = append(chain, &b), info
	}
	restored := memfs.New()
	o := stoat.RestoreOptions{Options: &stoat.Options{FS: restored}}
	_, err := stoat.Restore(t.Context(), testkit.Dir, o, chain[0], chain[1], chain[2], chain[3], chain[4])
	testkit.Must(t, err)
	again := testkit.OpenOn(t, restored, nil)
	defer again.Close()
	for i := range 5 {
		want := fmt.Sprint("value", i)
		if i == 0 {
			want = "(none)"
		}
		wantKey(t, again, fmt.Sprint("key", i), want)
	}
	wantKey(t, again, "last", "4")
}
