package behaviour

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A transaction that does nothing keeps what it could see, and not what was
// written, flushed and merged since.
func TestOpenTransaction_DoesNotKeepWhatItCannotSee(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memtable := int64(testkit.Raced(256<<10, 64<<10))
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: memtable, Durability: stoat.Buffered})
		testkit.Must(t, err)
		overwrite := func() { testkit.SetKeys(t, db, 0, testkit.Raced(40_000, 10_000), 100, 1) }
		overwrite()
		time.Sleep(time.Minute)
		s := db.Stats()
		live, offHeap := s.DiskBytes(), s.Memory.OffHeap
		tx := testkit.Begin(t, db, stoat.ReadOnly)
		for range 5 {
			overwrite()
		}
		time.Sleep(time.Minute)
		s = db.Stats()
		t.Logf("%d bytes live, %d with the transaction, of which %d garbage in %d files; %d bytes of memtables", live, s.DiskBytes(), s.GarbageBytes, s.GarbageFiles, s.Memory.FlushedMemtables)
		if s.Memory.FlushedMemtables > 2*memtable {
			t.Errorf("%d bytes of memtables are kept for a transaction, with memtables of %d", s.Memory.FlushedMemtables, memtable)
		}
		if own, _ := s.Memory.Total(); own < s.Memory.FlushedMemtables {
			t.Errorf("%d bytes of memory in all, without the %d that the transaction keeps", own, s.Memory.FlushedMemtables)
		}
		// Other tests take memory at the same time, so that this is no bound.
		t.Logf("%d bytes more outside the Go heap", s.Memory.OffHeap-offHeap)
		if s.GarbageBytes > live {
			t.Errorf("%d bytes of garbage are kept for a transaction that sees %d", s.GarbageBytes, live)
		}
		if s.DiskBytes() > 7*live/2 {
			t.Errorf("%d bytes on the disk; %d are live, and twice as much is there for the transaction", s.DiskBytes(), live)
		}
		tx.Discard()
		time.Sleep(time.Minute)
		s = db.Stats()
		if s.Memory.FlushedMemtables != 0 || s.GarbageFiles != 0 || s.DiskBytes() > live*11/10 {
			t.Errorf("%d bytes of memtables, %d files of garbage and %d bytes on the disk when the transaction has ended, of %d before",
				s.Memory.FlushedMemtables, s.GarbageFiles, s.DiskBytes(), live)
		}
		testkit.Must(t, db.Close())
	})
}

// While others overwrite at random, what a transaction keeps does not grow with
// what is written, be it in tables or in value files.
func TestOpenTransaction_KeepsNoMoreWhenOthersWrite(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 1 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const memtable = 256 << 10
				db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: memtable, Durability: stoat.Buffered})
				testkit.Must(t, err)
				keys := testkit.Raced(4<<20, 1<<20) / size
				testkit.SetKeys(t, db, 0, keys, size, 1)
				time.Sleep(time.Minute)
				s := db.Stats()
				live := s.DiskBytes()
				tx := testkit.Begin(t, db, stoat.ReadOnly)
				rng := rand.New(rand.NewPCG(1, 2))
				value := make([]byte, size)
				for round := range 4 {
					for range keys / 50 {
						testkit.Must(t, db.Update(func(tx stoat.Txn) error {
							for range 50 {
								if err := tx.Set(testkit.Key(rng.IntN(keys)), value); err != nil {
									return err
								}
							}
							return nil
						}))
					}
					synctest.Wait()
					s := db.Stats()
					if s.GarbageBytes > live*5/4 || s.Memory.FlushedMemtables > 2*memtable {
						t.Errorf("round %d: %d bytes of files, of %d that it sees, and %d of memtables are kept", round, s.GarbageBytes, live, s.Memory.FlushedMemtables)
					}
				}
				tx.Discard()
				testkit.Must(t, db.Close())
			})
		})
	}
}
