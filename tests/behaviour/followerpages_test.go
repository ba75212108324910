package behaviour

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A follower keeps decrypted pages until their files are replaced.
func TestFollower_CountsNoPagesAsGivenBackThatItKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		keys := testkit.Keys
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, Keys: keys})
		testkit.Must(t, err)
		defer db.Close()
		testkit.SetKeys(t, db, 0, 4000, 1000, 'v')
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, FollowEvery: -1, Keys: keys, MemoryBudget: 1 << 20})
		testkit.Must(t, err)
		defer f.Close()
		for range 30 {
			testkit.Must(t, f.View(func(tx stoat.Txn) error {
				for range tx.All() {
				}
				return tx.Err()
			}))
			time.Sleep(time.Second)
		}
		m := f.Stats().Memory
		if m.TablePages+m.ValuePages < m.Budget*7/8 {
			t.Fatalf("too few pages were read: %+v", m)
		}
		if m.GivenBack > 0 {
			t.Errorf("%d bytes are given back: %+v", m.GivenBack, m)
		}
	})
}
