package behaviour

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A churn is a database in memory that is written to over and over.
type churn struct {
	t       *testing.T
	fs      *memfs.FS
	db      *stoat.DB
	keys    int   // that there are
	written int64 // bytes of keys and values
}

const (
	churnValue = 1 << 10
	churnBatch = 100
)

// inChurn runs fn in a bubble, so that what comes with time comes at once.
func inChurn(t *testing.T, fn func(c *churn)) {
	inChurnOf(t, testkit.Raced(12_000, 6_000), fn)
}

// inChurnOf is inChurn for so many keys.
func inChurnOf(t *testing.T, keys int, fn func(c *churn)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &churn{t: t, fs: memfs.NewVolatile(), keys: keys}
		var err error
		c.db, err = stoat.Open("db", &stoat.Options{FS: c.fs, MemtableSize: 256 << 10, Durability: stoat.Buffered})
		if err != nil {
			t.Fatal(err)
		}
		fn(c)
		if _, err := c.db.Check(t.Context(), stoat.CheckOptions{}); err != nil {
			t.Error(err)
		}
		if err := c.db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func churnKey(i int) []byte { return fmt.Appendf(nil, "churn-%08d", i) }

// batch commits what set does with the keys that next returns.
func (c *churn) batch(next func(i int) int, set func(tx stoat.Txn, key []byte) error) {
	err := c.db.Update(func(tx stoat.Txn) error {
		for i := range churnBatch {
			if err := set(tx, churnKey(next(i))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// write commits random values for the keys that next returns.
func (c *churn) write(rng *rand.Rand, next func(i int) int) {
	c.batch(next, func(tx stoat.Txn, key []byte) error {
		value := noise.Bytes(rng, churnValue)
		c.written += int64(len(key) + len(value))
		return tx.Set(key, value)
	})
}

// load writes each key once.
func (c *churn) load(rng *rand.Rand) {
	for from := 0; from < c.keys; from += churnBatch {
		c.write(rng, func(i int) int { return from + i })
	}
}

// watchPeak returns the most bytes that the disk holds from now on. A disk is fullest
// before a removal.
func (c *churn) watchPeak() *atomic.Int64 {
	peak := new(atomic.Int64)
	c.fs.SetHook(func(op vfs.Op) {
		if op.Kind != vfs.OpRemove {
			return
		}
		used := c.fs.UsedBytes()
		for most := peak.Load(); used > most && !peak.CompareAndSwap(most, used); most = peak.Load() {
		}
	})
	return peak
}

// share returns what the directory takes for one byte that is live, without the
// log and the manifest, which are large beside so little data.
func (c *churn) share() float64 { return float64(c.size(".log", "MANIFEST-")) / float64(c.live()) }

// size returns how many bytes the directory takes, without the files that have
// one of some words in their names.
func (c *churn) size(without ...string) (size int64) {
	names, err := c.fs.List("db")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		if slices.ContainsFunc(without, func(word string) bool { return strings.Contains(name, word) }) {
			continue
		}
		// A file may be deleted between the list and the look.
		if info, err := c.fs.Stat(c.fs.Join("db", name)); err == nil {
			size += info.Size
		}
	}
	return size
}

// live is how many bytes of keys and values there are.
func (c *churn) live() int { return c.keys * (churnValue + len("churn-00000000")) }

func TestChurn_DirectoryStaysBoundedWhileCollectionKeepsUp(t *testing.T) {
	inChurn(t, func(c *churn) {
		rng := rand.New(rand.NewPCG(1, 2))
		c.load(rng)
		worst, with := 0.0, stoat.Stats{}
		for n := 0; n < testkit.Raced(3, 1)*c.keys; n += churnBatch {
			c.write(rng, func(int) int { return rng.IntN(c.keys) })
			synctest.Wait() // the clock of the bubble throttles no writer
			if now := c.share(); now > worst {
				worst, with = now, c.db.Stats()
			}
		}
		if worst > 1.5 { // without collection it would be 4
			t.Errorf("the directory took %.2f of what is live beside log and manifest: values %d with garbage %d, tables %d",
				worst, with.ValueBytes, with.ValueGarbage, with.TableBytes)
		}
		t.Logf("at most %.2f of what is live", worst)
		s := c.db.Stats()
		if s.Collections == 0 {
			t.Error("nothing was collected")
		}
		if copied := float64(s.CollectedBytes) / float64(c.written); copied > 2 {
			t.Errorf("collection copied %.2f bytes for one that was written", copied)
		}
	})
}

func TestChurn_IdleDatabaseGivesBackOverwrittenValues(t *testing.T) {
	inChurn(t, func(c *churn) {
		rng := rand.New(rand.NewPCG(3, 4))
		c.load(rng)
		for range 2 * c.keys / churnBatch {
			c.write(rng, func(int) int { return rng.IntN(c.keys) })
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// Of values this short the heads of the records and the tables take 0.09, and
		// garbage of a twentieth is left alone, which is 0.06 of what is live.
		if now := c.share(); now > 1.18 {
			s := c.db.Stats()
			t.Errorf("the directory takes %.3f of what is live after a minute: values %d with garbage %d, log %d, memtables %d, level 0 %+v, last %+v",
				now, s.ValueBytes, s.ValueGarbage, s.Log.BytesOnDisk, s.MemtableBytes, s.Levels[0], s.Levels[6])
		}
	})
}

func TestChurn_DirectoryShrinksAfterAllKeysAreDeleted(t *testing.T) {
	inChurn(t, func(c *churn) {
		rng := rand.New(rand.NewPCG(5, 6))
		c.load(rng)
		full := c.size()
		for from := 0; from < c.keys; from += churnBatch {
			c.batch(func(i int) int { return from + i }, (stoat.Txn).Delete)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if now := c.size(); 20*now > full {
			t.Errorf("the directory takes %d of %d bytes after a minute", now, full)
		}
	})
}

func TestStats_TellWhatASnapshotHoldsAndForHowLong(t *testing.T) {
	inChurn(t, func(c *churn) {
		rng := rand.New(rand.NewPCG(7, 8))
		c.load(rng)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := c.db.Stats(); s.GarbageFiles != 0 || s.GarbageBytes != 0 || s.GarbageAge != 0 {
			t.Fatalf("without a snapshot %d files of %d bytes wait, for %v", s.GarbageFiles, s.GarbageBytes, s.GarbageAge)
		}
		tx, err := c.db.Begin(stoat.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range c.keys / churnBatch {
			c.write(rng, func(int) int { return rng.IntN(c.keys) })
			time.Sleep(time.Second)
		}
		synctest.Wait()
		s, held := c.db.Stats(), time.Since(began)
		unknown := c.size(".log", "MANIFEST-", "LOCK") - s.TableBytes - s.ValueBytes
		if s.GarbageFiles == 0 || s.GarbageBytes != unknown {
			t.Errorf("%d files of %d bytes wait for the snapshot; the directory has %d bytes that are no part of the database",
				s.GarbageFiles, s.GarbageBytes, unknown)
		}
		if s.GarbageAge > held || s.GarbageAge < held/2 {
			t.Errorf("the oldest has waited for %v, the snapshot was held for %v", s.GarbageAge, held)
		}
		if s.OldestAge > held || s.OldestAge < held*8/9-time.Second {
			t.Errorf("the oldest snapshot is told to be %v old, it was held for %v", s.OldestAge, held)
		}
		if s.OldestVersion == s.Version || s.Readers != 1 {
			t.Errorf("the oldest of %d snapshots is %d, the newest version %d", s.Readers, s.OldestVersion, s.Version)
		}
		if _, err := tx.Get(churnKey(1)); err != nil {
			t.Errorf("the snapshot cannot read a key: %v", err)
		}
		tx.Discard()
		synctest.Wait()
		if s := c.db.Stats(); s.GarbageFiles != 0 || s.GarbageBytes != 0 || s.GarbageAge != 0 || s.OldestAge != 0 {
			t.Errorf("after the snapshot %d files of %d bytes wait, for %v; the oldest is %v old", s.GarbageFiles, s.GarbageBytes, s.GarbageAge, s.OldestAge)
		}
	})
}
