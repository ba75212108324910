package behaviour

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A flush makes durable what was committed as Buffered. When a power cut then
// takes it from the log, its numbers are missing there for good.
func TestRecovery_LogWithAGapThatIsInTablesOpensAgainAndAgain(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	opts := stoat.Options{FS: disk, MemtableSize: 64 << 10}
	commit := func(db *stoat.DB, durability stoat.Durability) {
		t.Helper()
		if err := db.Update(func(tx stoat.Txn) error {
			return tx.Set([]byte("k"), []byte(strings.Repeat("v", 4<<10)))
		}, stoat.WithDurability(durability)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		db, err := stoat.Open(testkit.Dir, &opts)
		if err != nil {
			t.Fatal(err)
		}
		commit(db, stoat.Synced)
		for range 39 {
			commit(db, stoat.Buffered)
		}
		testkit.Eventually(t, "something is flushed", func() bool { return db.Stats().Flushes > 0 })
		crashed := disk.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 1)))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		disk, opts.FS = crashed, crashed
	}
	db, err := stoat.Open(testkit.Dir, &opts)
	if err != nil {
		t.Fatal(err)
	}
	commit(db, stoat.Synced)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
