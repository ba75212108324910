package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A lateClose calls closing when the mapping of a table is closed, once it is set. A follower
// closes the tables of an old view after readers see the new one.
type lateClose struct {
	vfs.FS
	closing func()
}

func (c *lateClose) Open(name string, cat vfs.Category) (vfs.File, error) {
	f, err := c.FS.Open(name, cat)
	if err == nil && cat == vfs.CatTable {
		return &lateFile{f, c}, nil
	}
	return f, err
}

type lateFile struct {
	vfs.File
	fs *lateClose
}

func (f *lateFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	return &lateMapping{m, f.fs}, nil
}

type lateMapping struct {
	vfs.Mapping
	fs *lateClose
}

func (m *lateMapping) Close() error {
	if closing := m.fs.closing; closing != nil {
		m.fs.closing = nil
		closing()
	}
	return m.Mapping.Close()
}

// refreshBeside refreshes f, and runs fn on another goroutine once readers see the new view. The
// refresh goes on when fn has returned, or waits for it.
func refreshBeside(t *testing.T, f *stoat.DB, disk *lateClose, fn func() error) error {
	t.Helper()
	result := make(chan error, 1)
	disk.closing = func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			result <- fn()
		}()
		for range 100_000 {
			select {
			case <-done:
				return
			default:
				runtime.Gosched() // it may wait for a lock, which stops the time of synctest
			}
		}
	}
	testkit.Must(t, f.Refresh(t.Context()))
	if disk.closing != nil {
		t.Fatal("the refresh has closed no table")
	}
	return <-result
}

// overwrite makes a compaction replace the table of the default keyspace.
func overwrite(t *testing.T, db *stoat.DB, value string) {
	t.Helper()
	for _, key := range []string{"a", "z"} {
		set(t, db, key, value)
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
}

// newFollowed returns a writer with a table, and a follower of it.
func newFollowed(t *testing.T) (db, f *stoat.DB, disk *lateClose) {
	t.Helper()
	disk = &lateClose{FS: memfs.New()}
	var err error
	db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk.FS})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	overwrite(t, db, "1")
	return db, follow(t, disk), disk
}

func TestFollower_KeyspaceIsThatOfTheTransactionThatAsks(t *testing.T) {
	t.Parallel()
	db, f, disk := newFollowed(t)
	ks := keyspace(t, db, "new")
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("marker"), nil), tx.In(ks).Set([]byte("key"), nil))
	}))
	overwrite(t, db, "2")
	testkit.Must(t, refreshBeside(t, f, disk, func() error {
		return f.View(func(tx stoat.Txn) error {
			if _, err := tx.Get([]byte("marker")); err != nil {
				return fmt.Errorf("version %d: %w", tx.ReadVersion(), err)
			}
			ks, err := f.Keyspace("new", nil)
			if err != nil {
				return fmt.Errorf("version %d: %w", tx.ReadVersion(), err)
			}
			_, err = tx.In(ks).Get([]byte("key"))
			return err
		})
	}))
}

func TestFollower_KeyspaceThatItsWriterForgotWithinARefreshIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, f, disk := newFollowed(t)
		keyspace(t, db, "gone")
		testkit.Must(t, f.Refresh(t.Context()))
		_, err := f.Keyspace("gone", nil)
		testkit.Must(t, err)
		testkit.Must(t, db.DropKeyspace("gone"))
		overwrite(t, db, "2")
		time.Sleep(time.Minute) // the writer forgets the keyspace
		err = refreshBeside(t, f, disk, func() error { _, err := f.Keyspace("gone", nil); return err })
		testkit.WantError(t, "the dropped keyspace", err, stoat.ErrNoKeyspace)
	})
}

// A longest is a merge function that keeps the longest operand.
type longest struct{}

func (longest) Name() string { return "longest" }

func (longest) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	best := existing
	for _, o := range operands {
		if len(o) > len(best) {
			best = o
		}
	}
	return append(dst, bytes.Clone(best)...), nil
}

func TestFollower_SnapshotMergesWithTheFunctionOfAKeyspaceThatItsWriterForgot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		functions := []stoat.MergeFunction{merge.Counter, longest{}}
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MergeFunctions, o.MergeFunction = functions, merge.Counter.Name() })
		ks, err := db.Keyspace("gone", &stoat.KeyspaceOptions{MergeFunction: longest{}.Name()})
		testkit.Must(t, err)
		for _, operand := range []string{"a", "bbb", "cc"} {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Merge([]byte("key"), []byte(operand)) }))
		}
		f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, FollowEvery: -1, MergeFunctions: functions})
		testkit.Must(t, err)
		followed, err := f.Keyspace("gone", nil)
		testkit.Must(t, err)
		snapshot, err := f.Snapshot(stoat.SnapshotOptions{})
		testkit.Must(t, err)
		testkit.Must(t, db.DropKeyspace("gone"))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		time.Sleep(time.Minute) // the writer forgets the keyspace
		testkit.Must(t, f.Refresh(t.Context()))
		testkit.Must(t, snapshot.View(func(tx stoat.Txn) error {
			got, err := tx.In(followed).Get([]byte("key"))
			if string(got) != "bbb" {
				t.Errorf("the snapshot reads %q, want %q", got, "bbb")
			}
			return err
		}))
		snapshot.Close()
		testkit.Must(t, f.Close())
		testkit.Must(t, db.Close())
	})
}

// A swapping is one disk, and another one once the first segment of the log was opened.
type swapping struct {
	vfs.FS
	next vfs.FS
}

func (s *swapping) Open(name string, cat vfs.Category) (vfs.File, error) {
	f, err := s.FS.Open(name, cat)
	if err == nil && cat == vfs.CatLog && s.next != nil {
		s.FS, s.next = s.next, nil
	}
	return f, err
}

// The sync of an edit fails after a follower has read it, and the next writer goes on without.
// The follower reads the log for the first time meanwhile, without what the edit has in tables.
func TestFollower_ReadsTheLogAnewWhenAFlushIsLostDuringItsFirstRound(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	open := func(fs *memfs.FS) *stoat.DB {
		return testkit.OpenOn(t, fs, func(o *stoat.Options) { o.Keys = testkit.Keys })
	}
	db := open(disk)
	const keys = 5
	for i := range keys {
		set(t, db, fmt.Sprint(i), "value")
	}
	testkit.Must(t, db.Sync())
	lost := disk.Clone() // has no edit of the flush
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	flushed := disk.Clone()
	testkit.Must(t, db.Close())
	for i := range 4 { // a later manifest than that of the flush
		db := open(lost)
		keyspace(t, db, fmt.Sprint(i))
		testkit.Must(t, db.Close())
	}
	f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: &swapping{flushed, lost}, FollowEvery: -1, Keys: testkit.Keys})
	testkit.Must(t, err)
	testkit.Must(t, f.Refresh(t.Context()))
	var missing []string
	testkit.Must(t, f.View(func(tx stoat.Txn) error {
		for i := range keys {
			if ok, err := tx.Has([]byte(fmt.Sprint(i))); err != nil || !ok {
				missing = append(missing, fmt.Sprint(i))
			}
		}
		return nil
	}))
	if len(missing) > 0 {
		t.Errorf("the follower misses the keys %s", strings.Join(missing, ", "))
	}
	testkit.Must(t, f.Close())
}
