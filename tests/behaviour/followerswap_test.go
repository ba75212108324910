package behaviour

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// swapped makes a follower of a database, and then puts another database in its place, whose
// manifest has the same number. A writer of that one has committed.
func swapped(t *testing.T, before, after stoat.KeyProvider) *stoat.DB {
	t.Helper()
	at := t.TempDir()
	dir, other := filepath.Join(at, "db"), filepath.Join(at, "other")
	open := func(dir string, keys stoat.KeyProvider) *stoat.DB {
		db, err := stoat.Open(dir, &stoat.Options{Keys: keys})
		testkit.Must(t, err)
		return db
	}
	db := open(dir, before)
	set(t, db, "key", "one")
	testkit.Must(t, db.Close())
	testkit.Must(t, open(other, after).Close())
	f, err := stoat.OpenFollower(dir, &stoat.Options{FollowEvery: -1, Keys: before})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, f.Close()) })
	for range 2 { // the second one looks for damage, and the next one is due later
		testkit.Must(t, f.Refresh(t.Context()))
	}
	testkit.Must(t, os.Rename(dir, filepath.Join(at, "old")))
	testkit.Must(t, os.Rename(other, dir))
	db = open(dir, after)
	set(t, db, "key", "two")
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return f
}

func TestFollower_SwappedDirectoryIsStaleAtOnce(t *testing.T) {
	t.Parallel()
	f := swapped(t, nil, nil)
	for range 2 {
		testkit.WantError(t, "Refresh", f.Refresh(t.Context()), stoat.ErrStale)
	}
	_, err := f.Backup(t.Context(), io.Discard, stoat.BackupOptions{})
	testkit.WantError(t, "Backup", err, stoat.ErrStale)
	testkit.WantError(t, "Checkpoint", f.Checkpoint(t.Context(), filepath.Join(t.TempDir(), "copy")), stoat.ErrStale)
	testkit.WantError(t, "Sync", f.Sync(), stoat.ErrStale)
	wantKey(t, f, "key", "one")
}

func TestFollower_SwappedDirectoryWithoutEncryptionIsStaleAtOnce(t *testing.T) {
	t.Parallel()
	f := swapped(t, testkit.Keys, nil)
	testkit.WantError(t, "Refresh", f.Refresh(t.Context()), stoat.ErrStale)
}

// BenchmarkFollower_IdleRefresh is a Refresh without news.
func BenchmarkFollower_IdleRefresh(b *testing.B) {
	for _, keys := range []stoat.KeyProvider{nil, testkit.Keys} {
		b.Run(fmt.Sprintf("encrypted=%t", keys != nil), func(b *testing.B) {
			dir := b.TempDir()
			db, err := stoat.Open(dir, &stoat.Options{Keys: keys})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			f, err := stoat.OpenFollower(dir, &stoat.Options{FollowEvery: -1, Keys: keys})
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			for b.Loop() {
				if err := f.Refresh(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
