package behaviour

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A reader that passes many dead keys remembers that nothing lives among them. Here are
// the readers whose memory would be wrong for others.

// Half of the jobs are more dead keys than a reader passes without remembering. A reader
// that meets so many uses what others remember.
const jobs, half = 200, 100

// job returns the key of a job.
func job(n int) string { return fmt.Sprintf("job/%03d", n) }

// countJobs returns how many jobs a transaction sees.
func countJobs(t *testing.T, tx stoat.Txn, since uint64) (n int) {
	t.Helper()
	it := tx.Iterator(stoat.IterOptions{Prefix: []byte("job/"), Since: since})
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	testkit.Must(t, it.Close())
	return n
}

// wantJobs demands that a new transaction sees so many jobs.
func wantJobs(t *testing.T, db *stoat.DB, want int) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if got := countJobs(t, tx, 0); got != want {
			t.Errorf("a reader sees %d jobs, want %d", got, want)
		}
		return nil
	}))
}

// deleteJobs deletes the jobs [from, to), each in a commit of its own.
func deleteJobs(t *testing.T, db *stoat.DB, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Delete([]byte(job(n))) }))
	}
}

// addJobs sets the jobs [from, to), each in a commit of its own.
func addJobs(t *testing.T, db *stoat.DB, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		set(t, db, job(n), "value")
	}
}

// A changing is a file system in whose place another may come.
type changing struct{ vfs.FS }

func TestGaps_AFollowerSeesWhatItsWriterDidNotDeleteAfterAPowerCut(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	buffered := func(o *stoat.Options) { o.Durability = stoat.Buffered }
	db := testkit.OpenOn(t, disk, buffered)
	defer db.Close()
	addJobs(t, db, 0, jobs)
	deleteJobs(t, db, 0, half)
	testkit.Must(t, db.Sync())
	seen := &changing{disk}
	f := follow(t, seen)
	deleteJobs(t, db, half, jobs)
	after := disk.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 1)))
	testkit.Must(t, f.Refresh(t.Context()))
	wantJobs(t, f, 0)

	restarted := testkit.OpenOn(t, after, buffered)
	defer restarted.Close()
	for range 2 * jobs {
		set(t, restarted, "other", "value") // these versions are those of the lost deletions
	}
	wantJobs(t, restarted, half)
	seen.FS = after
	testkit.Must(t, f.Refresh(t.Context()))
	wantJobs(t, f, half)
}

// A dropAll drops all jobs, and begins a transaction while a compaction runs.
type dropAll struct {
	db    *stoat.DB
	once  sync.Once
	tx    stoat.Txn
	err   error
	drops bool
}

func (*dropAll) Name() string { return "drop-all" }

func (d *dropAll) Filter([]byte, *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	if !d.drops {
		return stoat.FilterKeep, nil
	}
	d.once.Do(func() { d.tx, d.err = d.db.Begin(stoat.ReadOnly) })
	return stoat.FilterDrop, nil
}

func TestGaps_AReaderFromBeforeACompactionSeesWhatAFilterDropped(t *testing.T) {
	t.Parallel()
	filter := &dropAll{}
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		o.Filters, o.Filter = []stoat.Filter{filter}, filter.Name()
		o.MemtableSize = 1 << 20
	})
	defer db.Close()
	filter.db = db
	addJobs(t, db, 0, half)
	old := testkit.Begin(t, db, stoat.ReadOnly) // keeps the deletions that follow
	defer old.Discard()
	deleteJobs(t, db, 0, half)
	addJobs(t, db, half, jobs)
	testkit.Must(t, testkit.WaitForFlushes(db))
	filter.drops = true
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if filter.err != nil || filter.tx == (stoat.Txn{}) {
		t.Fatalf("no transaction began during the compaction: %v", filter.err)
	}
	defer filter.tx.Discard()
	wantJobs(t, db, 0) // passes the deletions
	if got := countJobs(t, filter.tx, 0); got != half {
		t.Errorf("a reader from before the compaction sees %d jobs, want %d", got, half)
	}
}

func TestGaps_AReaderOfNewVersionsHidesNoOldOnes(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 1 << 20 })
		addJobs(t, db, 0, jobs)
		if flush {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		since := db.Stats().Version
		deleteJobs(t, db, 0, half)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			if got := countJobs(t, tx, since); got != 0 {
				t.Errorf("a reader of what is newer than version %d sees %d jobs, want none", since, got)
			}
			return nil
		}))
		wantJobs(t, db, half)
		testkit.Must(t, db.Close())
	}
}

// A reader passes the newer deletions of one gap, older ones behind it, and a second gap.
// What it then remembers must not hide, from an older snapshot, what the first gap deleted.
func TestGaps_AGapThatGrowsIntoAnotherKeepsTheNewestDeletion(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
		testkit.Must(t, err)
		key := func(space byte, i int) []byte { return fmt.Appendf(nil, "%c%03d", space, i) }
		change := func(do func(tx stoat.Txn, key []byte) error, ranges ...[3]int) {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				for _, r := range ranges {
					for i := r[1]; i < r[2]; i++ {
						if err := do(tx, key(byte(r[0]), i)); err != nil {
							return err
						}
					}
				}
				return nil
			}))
		}
		first, last, young, end := int('a'), int('z'), [2]int{64, 100}, "~"
		if reverse {
			first, last, young, end = int('z'), int('a'), [2]int{0, 36}, "A"
		}
		set := func(tx stoat.Txn, key []byte) error { return tx.Set(key, []byte("value")) }
		remove := func(tx stoat.Txn, key []byte) error { return tx.Delete(key) }
		change(set, [3]int{first, 0, 100}, [3]int{'m', 0, 100}, [3]int{last, 0, 100})
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return set(tx, []byte(end)) }))
		old := [][3]int{{'m', 0, 100}, {last, 0, 100}, {first, 0, young[0]}, {first, young[1], 100}}
		change(remove, old...)
		snapshot, err := db.Snapshot(stoat.SnapshotOptions{})
		testkit.Must(t, err)
		change(remove, [3]int{first, young[0], young[1]})
		count := func(tx stoat.Txn, prefix string) (n int) {
			it := tx.Iterator(stoat.IterOptions{Prefix: []byte(prefix), Reverse: reverse})
			defer func() { testkit.Must(t, it.Close()) }()
			for it.Next() {
				n++
			}
			return n
		}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for _, space := range []int{first, last} {
				if n := count(tx, string(rune(space))); n != 0 {
					t.Errorf("reverse %t: %d keys with the prefix %c, want none", reverse, n, space)
				}
			}
			if n := count(tx, ""); n != 1 {
				t.Errorf("reverse %t: %d keys in all, want 1", reverse, n)
			}
			return nil
		}))
		testkit.Must(t, snapshot.View(func(tx stoat.Txn) error {
			if n := count(tx, string(rune(first))); n != 36 {
				t.Errorf("reverse %t: the snapshot has %d keys with the prefix %c, want 36", reverse, n, first)
			}
			if n := count(tx, ""); n != 37 {
				t.Errorf("reverse %t: the snapshot has %d keys, want 37", reverse, n)
			}
			return nil
		}))
		snapshot.Close()
		testkit.Must(t, db.Close())
	}
}
