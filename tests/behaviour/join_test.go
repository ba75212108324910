package behaviour

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// blob is a value that a commit of the smallest memtable writes to a file of its
// own.
func blob(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "blob %06d.", i), 17<<10/12) }

const blobMemtable = 64 << 10

func checkBlobs(t *testing.T, tx stoat.Txn, from, to, version int) {
	t.Helper()
	for i := from; i < to; i++ {
		if v, err := tx.Get(testkit.Key(i)); err != nil || !bytes.Equal(v, blob(version+i)) {
			t.Fatalf("value %d: %d bytes, error %v", i, len(v), err)
		}
	}
}

func checkWhole(t *testing.T, db *stoat.DB) {
	t.Helper()
	if report, err := db.Check(t.Context(), stoat.CheckOptions{}); err != nil {
		t.Fatalf("%+v, error %v", report, err)
	}
}

// Each commit makes a value file, in which there is one value. Whatever the order
// of the keys: ascending ones pass no merge on their way to the last level.
func TestJoin_AThousandLargeCommitsEndInFewFiles(t *testing.T) {
	t.Parallel()
	const n = 1000
	for _, order := range []string{"ascending", "mixed"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: blobMemtable})
			testkit.Must(t, err)
			user := int64(0)
			for i := range n {
				key := i
				if order == "mixed" {
					key = i * 377 % n
				}
				user += int64(len(blob(key)))
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(key), blob(key)) }))
			}
			s := db.Stats()
			if s.ApartBytes < user {
				t.Fatalf("%d bytes of %d were written apart", s.ApartBytes, user)
			}
			if wa := s.WriteAmplification(); wa > 3.8 {
				t.Errorf("%.2f bytes were written for each", wa)
			}
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			s = db.Stats()
			// All of it is a fraction of a file of usual size. Compact leaves
			// alone the files that background jobs join at the same time.
			if s.Values > 16 {
				t.Errorf("%d value files of %d bytes", s.Values, s.ValueBytes)
			}
			// Compact may write a value once to join it and once for the order.
			if wa := s.WriteAmplification(); wa > 5.8 {
				t.Errorf("%.2f bytes were written for each after Compact", wa)
			}
			written := int64(-1)
			for range 3 { // the first may meet files that were joined beside the one before
				if s = db.Stats(); s.CompactedBytes == written {
					break
				}
				written = s.CompactedBytes
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			}
			if s = db.Stats(); s.CompactedBytes != written || s.Values > 16 {
				t.Errorf("%d bytes more were written when nothing was left to do, %d value files", s.CompactedBytes-written, s.Values)
			}
			checkWhole(t, db)
			testkit.Must(t, db.View(func(tx stoat.Txn) error { checkBlobs(t, tx, 0, n, 0); return nil }))
			testkit.Must(t, db.Close())
		})
	}
}

// Each pause leaves a table that meets no other, and a file of values that lie in
// order.
func TestJoin_SlowLogOfGrowingKeysEndsInFewFiles(t *testing.T) {
	t.Parallel()
	const bursts = 600                     // more than files are left alone
	burst := testkit.Raced(40<<10, 34<<10) // enough for a flush of its own
	const memtable = 256 << 10
	for what, size := range map[string]int{"values apart": 1000, "values in tables": 100} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: memtable})
				testkit.Must(t, err)
				value := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, size/2) }
				n := 0
				for range bursts {
					testkit.Must(t, db.Update(func(tx stoat.Txn) error {
						for end := n + burst/size; n < end; n++ {
							if err := tx.Set(testkit.Key(n), value(n)); err != nil {
								return err
							}
						}
						return nil
					}))
					time.Sleep(3 * time.Second)
				}
				synctest.Wait()
				s := db.Stats()
				tables, enough := 0, 40
				for _, level := range s.Levels {
					tables += level.Tables
					enough += int(level.Bytes / (memtable / 2)) // of half a full one
				}
				if s.Flushes < bursts {
					t.Fatalf("%d flushes of %d bursts", s.Flushes, bursts)
				}
				t.Logf("%d tables, %d value files, %.2f bytes written for each", tables, s.Values, s.WriteAmplification())
				if tables > enough || s.Values > 300 {
					t.Errorf("%d tables and %d value files", tables, s.Values)
				}
				if wa := s.WriteAmplification(); wa > 4 {
					t.Errorf("%.2f bytes were written for each", wa)
				}
				time.Sleep(time.Hour)
				if more := db.Stats().Compactions - s.Compactions; more != 0 {
					t.Errorf("%d more merges in an hour of rest", more)
				}
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				if s = db.Stats(); s.Values > 16 {
					t.Errorf("%d value files after Compact", s.Values)
				}
				checkWhole(t, db)
				testkit.Must(t, db.View(func(tx stoat.Txn) error {
					for i := range n {
						if v, err := tx.Get(testkit.Key(i)); err != nil || !bytes.Equal(v, value(i)) {
							t.Fatalf("value %d: %d bytes, %v", i, len(v), err)
						}
					}
					return nil
				}))
				testkit.Must(t, db.Close())
			})
		})
	}
}

func TestJoin_ReadersKeepWhatTheySee(t *testing.T) {
	t.Parallel()
	const n = 40
	disk := memfs.New()
	opts := &stoat.Options{FS: disk, MemtableSize: blobMemtable}
	db, err := stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	write := func(version int) {
		for i := range n {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), blob(version+i)) }))
		}
	}
	write(0)
	old, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	checkBlobs(t, old, 0, n/2, 0)
	write(n)
	before := db.Stats().Values
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if after := db.Stats().Values; after > 4 || after >= before {
		t.Errorf("%d value files before, %d after", before, after)
	}
	checkBlobs(t, old, 0, n, 0)
	old.Discard()
	checkWhole(t, db)
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error { checkBlobs(t, tx, 0, n, n); return nil }))
	testkit.Must(t, db.Close())
}

// Full disks and files that lie come to joining as to every other work: nothing
// is lost, and nothing is left when there is room again.
func TestJoin_LeavesAllAsItWasWhenItFails(t *testing.T) {
	t.Parallel()
	const n = 40
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, MemtableSize: 4 << 20})
	testkit.Must(t, err)
	for i := range n {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return tx.SetReader(testkit.Key(i), bytes.NewReader(bytes.Repeat(blob(i), 70)))
		}))
	}
	testkit.Must(t, db.Collect(t.Context())) // flushes
	files := db.Stats().Values
	disk.SetCapacity(disk.UsedBytes() + 4<<20)
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); err == nil {
		t.Fatal("a joining into a full disk succeeds")
	}
	if s := db.Stats(); s.Values != files {
		t.Errorf("%d value files, there were %d", s.Values, files)
	}
	checkWhole(t, db)
	disk.SetCapacity(1 << 40)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if s := db.Stats(); s.Values > 4 {
		t.Errorf("%d value files", s.Values)
	}
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	if found := strings.Count(strings.Join(names, " "), ".values"); found != db.Stats().Values {
		t.Errorf("%d value files in the directory, %d in the database", found, db.Stats().Values)
	}
	checkWhole(t, db)
	testkit.Must(t, db.Close())
}

func TestJoin_ShortValuesGivenAsReadersMakeNoFile(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	sizes := []int64{0, 1, 1000, 1<<20 - 1}
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, n := range sizes {
			if err := tx.SetReader(fmt.Append(nil, n), testkit.Patterned(n)); err != nil {
				return err
			}
			checkStream(t, tx, fmt.Sprint(n), n)
		}
		names, err := disk.List(testkit.Dir)
		if all := strings.Join(names, " "); strings.Contains(all, ".values") {
			t.Errorf("there are %s", all)
		}
		return err
	}))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for _, n := range sizes {
			checkStream(t, tx, fmt.Sprint(n), n)
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}
