package behaviour

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A program archives an old version by a buffered commit, and then discards it. A power cut
// leaves one of the two.
func TestDiscardBelow_IsNeverKeptWithoutAnEarlierCommit(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(1).Set([]byte("k"), []byte("v")) }))
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("archived"), []byte("v")) }, stoat.WithDurability(stoat.Buffered)))
	testkit.Must(t, ks.DiscardBelow(5))
	after := disk.CrashKeeping(func(int) bool { return false })
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: after})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	ks, err = db.Keyspace("timed", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		has, err := tx.Has([]byte("archived"))
		if !has && ks.DiscardedBelow() > 0 {
			t.Error("the discard point is there, and an earlier commit is not")
		}
		return err
	}))
}
