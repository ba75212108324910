package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// backUp returns a backup of db and its description.
func backUp(t *testing.T, db *stoat.DB, o stoat.BackupOptions) ([]byte, stoat.BackupInfo) {
	t.Helper()
	var to bytes.Buffer
	info, err := db.Backup(context.Background(), &to, o)
	testkit.Must(t, err)
	return to.Bytes(), info
}

// restore restores a chain on a disk of its own, and opens it.
func restore(t *testing.T, backups ...[]byte) *stoat.DB {
	t.Helper()
	o := &stoat.Options{FS: memfs.New()}
	var readers []io.Reader
	for _, b := range backups {
		readers = append(readers, bytes.NewReader(b))
	}
	_, err := stoat.Restore(context.Background(), "/r", stoat.RestoreOptions{Options: o}, readers...)
	testkit.Must(t, err)
	db, err := stoat.Open("/r", o)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return db
}

// valuesOf returns all keys and values of the default keyspace.
func valuesOf(t *testing.T, db *stoat.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for k, v := range tx.All() {
			all[string(k)] = string(v)
		}
		return tx.Err()
	}))
	return all
}

// A ledger is a database whose every commit counts itself, and what each commit wrote.
type ledger struct {
	db     *stoat.DB
	mu     sync.Mutex
	writes map[int]func(state map[string]string)
}

func newLedger() *ledger { return &ledger{writes: map[int]func(map[string]string){}} }

// write commits on four goroutines until the caller calls stop, or the test ends.
func (l *ledger) write(t *testing.T) (stop func()) {
	var stopped atomic.Bool
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := w; !stopped.Load(); i += 4 {
				if err := l.commit(i); err != nil && !errors.Is(err, stoat.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	stop = func() {
		stopped.Store(true)
		writers.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// commitSome commits n times, beside the other writers.
func (l *ledger) commitSome(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := l.commit(7); err != nil && !errors.Is(err, stoat.ErrConflict) {
			t.Fatal(err)
		}
	}
}

// check demands that a copy has the state after as many commits as it counts. It returns
// that number.
func (l *ledger) check(t *testing.T, what string, got map[string]string) (count int) {
	t.Helper()
	count, _ = strconv.Atoi(got["count"])
	want := map[string]string{}
	for i := range count {
		l.writes[i+1](want)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s has %d keys after %d commits, want %d, or other values", what, len(got), count, len(want))
	}
	return count
}

// commit writes some keys, deletes one or a range, and counts the commit.
func (l *ledger) commit(i int) error {
	value := fmt.Sprintf("%0600d", i)
	from, to := string(testkit.Key(i%300)), string(testkit.Key(i%300+20))
	var n int
	err := l.db.Update(func(tx stoat.Txn) error {
		count, err := tx.Get([]byte("count"))
		if err != nil && !errors.Is(err, stoat.ErrNotFound) {
			return err
		}
		n, _ = strconv.Atoi(string(count))
		n++
		for k := range 5 {
			if err := tx.Set(testkit.Key((i*7+k*13)%300), []byte(value)); err != nil {
				return err
			}
		}
		if i%9 == 0 {
			err = tx.DeleteRange([]byte(from), []byte(to))
		} else {
			err = tx.Delete([]byte(from))
		}
		if err != nil {
			return err
		}
		return tx.Set([]byte("count"), []byte(strconv.Itoa(n)))
	}, stoat.WithDurability(stoat.Buffered))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[n] = func(state map[string]string) {
		for k := range 5 {
			state[string(testkit.Key((i*7+k*13)%300))] = value
		}
		for key := range state {
			if key == from || i%9 == 0 && key >= from && key < to {
				delete(state, key)
			}
		}
		state["count"] = strconv.Itoa(n)
	}
	return nil
}

func TestBackup_UnderConcurrentWritesIsExactlyItsSnapshot(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.db = testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	stop := l.write(t)
	var chain [][]byte
	var since stoat.BackupInfo
	for range 6 {
		b, info := backUp(t, l.db, stoat.BackupOptions{Since: since})
		chain, since = append(chain, b), info
		l.commitSome(t, 50)
	}
	stop()
	before := -1
	for n := range chain {
		count := l.check(t, fmt.Sprint("backup ", n), valuesOf(t, restore(t, chain[:n+1]...)))
		if count <= before {
			t.Errorf("backup %d has %d commits, the one before %d", n, count, before)
		}
		before = count
	}
}

// The keyspace is dropped while the backup, which has begun, waits for the device.
func TestBackup_HasAKeyspaceThatIsDroppedAfterItsSnapshot(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, Durability: stoat.Buffered})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	jobs, err := db.Keyspace("jobs", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(jobs).Set([]byte("key"), []byte("value")) }))
	var began atomic.Bool
	var dropping sync.WaitGroup
	disk.Observe(func(op vfs.Op) {
		if op.Kind != vfs.OpSyncData || op.Category != vfs.CatLog || began.Swap(true) {
			return // the drop syncs the log, too
		}
		dropping.Go(func() { testkit.Must(t, db.DropKeyspace("jobs")) })
		for listed(t, db) > 0 {
			runtime.Gosched()
		}
	})
	backup, _ := backUp(t, db, stoat.BackupOptions{})
	dropping.Wait()
	if n := listed(t, db); n != 0 {
		t.Errorf("the database has %d keyspaces after the drop", n)
	}
	restored := restore(t, backup)
	jobs, err = restored.Keyspace("jobs", nil)
	testkit.Must(t, err)
	testkit.Must(t, restored.View(func(tx stoat.Txn) error {
		_, err := tx.In(jobs).Get([]byte("key"))
		return err
	}))
}

// The writer dies before the commit that deletes the keys of a dropped keyspace. An incremental
// backup by a follower then has no new version, and no keyspace.
func TestBackup_AnIncrementalOneOfAHalfDroppedKeyspaceRestoresNoKeyOfIt(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := faultfs.New(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	jobs, err := db.Keyspace("jobs", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.In(jobs).Set([]byte("key"), []byte("value")), tx.Set([]byte("kept"), []byte("value")))
	}))
	full, info := backUp(t, db, stoat.BackupOptions{})
	faults.Add(faultfs.Rule{Op: vfs.OpWrite, Category: vfs.CatLog, Forever: true})
	testkit.WantError(t, "DropKeyspace", db.DropKeyspace("jobs"), stoat.ErrFailed)
	if n := listed(t, db); n != 0 {
		t.Fatalf("the database has %d keyspaces after the drop", n)
	}
	follower, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk.Clone()})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, follower.Close()) }()
	since, next := backUp(t, follower, stoat.BackupOptions{Since: info})
	if next.Version != info.Version {
		t.Fatalf("the versions are %d and %d, want the same", info.Version, next.Version)
	}
	restored := restore(t, full, since)
	testkit.MustBeSound(t, restored)
	if got := valuesOf(t, restored); len(got) != 1 || listed(t, restored) != 0 {
		t.Errorf("restored were %v and %d keyspaces", got, listed(t, restored))
	}
	testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
}

// listed returns how many keyspaces with names a database has.
func listed(t *testing.T, db *stoat.DB) int {
	all, err := db.Keyspaces()
	testkit.Must(t, err)
	return len(all) - 1
}

func TestBackup_RefusesChainsThatDoNotFit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db, other := testkit.OpenMem(t), testkit.OpenMem(t)
	var chain [][]byte
	var infos []stoat.BackupInfo
	var since stoat.BackupInfo
	for i := range 4 {
		testkit.SetKeys(t, db, i, i+3, 10, 'x')
		b, info := backUp(t, db, stoat.BackupOptions{Since: since})
		chain, infos, since = append(chain, b), append(infos, info), info
	}
	testkit.SetKeys(t, other, 0, 3, 10, 'y')
	foreign, foreignInfo := backUp(t, other, stoat.BackupOptions{})
	o := stoat.RestoreOptions{Options: &stoat.Options{FS: memfs.New()}}
	for name, c := range map[string]struct {
		backups [][]byte
		says    string
	}{
		"none":                   {nil, "there is no backup"},
		"no full one":            {chain[1:], "want a full backup"},
		"a gap":                  {[][]byte{chain[0], chain[2]}, "ends at version"},
		"wrong order":            {[][]byte{chain[0], chain[2], chain[1]}, "ends at version"},
		"one twice":              {[][]byte{chain[0], chain[1], chain[1]}, "ends at version"},
		"of another database":    {[][]byte{foreign, chain[1]}, "of database"},
		"two full ones":          {[][]byte{chain[0], chain[0]}, "ends at version"},
		"the full one in middle": {[][]byte{chain[0], chain[1], foreign}, "of database"},
	} {
		var readers []io.Reader
		for _, b := range c.backups {
			readers = append(readers, bytes.NewReader(b))
		}
		_, err := stoat.Restore(ctx, "/r", o, readers...)
		if !errors.Is(err, stoat.ErrBackup) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.Version = infos[1].Version + 1000
	if _, err := stoat.Restore(ctx, "/r", o, bytes.NewReader(chain[0])); !errors.Is(err, stoat.ErrBackup) {
		t.Errorf("a version that no backup has: %v", err)
	}
	var to bytes.Buffer
	if _, err := db.Backup(ctx, &to, stoat.BackupOptions{Since: foreignInfo}); !errors.Is(err, stoat.ErrBackup) {
		t.Errorf("a backup since that of another database: %v", err)
	}
	future := since
	future.Version += 100
	if _, err := db.Backup(ctx, &to, stoat.BackupOptions{Since: future}); !errors.Is(err, stoat.ErrBackup) {
		t.Errorf("a backup since the future: %v", err)
	}
	if to.Len() > 0 {
		t.Errorf("refused backups wrote %d bytes", to.Len())
	}
	for _, bad := range []stoat.BackupOptions{{Versions: -1}, {Compression: 9}} {
		_, err := db.Backup(ctx, &to, bad)
		testkit.WantError(t, fmt.Sprintf("%+v", bad), err, stoat.ErrInvalid)
	}
	_, err := db.Backup(ctx, nil, stoat.BackupOptions{})
	testkit.WantError(t, "no writer", err, stoat.ErrInvalid)
}

// A backup is since the version of the one before, which that one has. What was deleted
// since then stays deleted, although merges have dropped the tombstones.
func TestBackup_DeletedKeysStayDeletedAfterMerges(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 300, 700, 'x')
	full, info := backUp(t, db, stoat.BackupOptions{})
	testkit.DeleteKeys(t, db, 0, 100)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(testkit.Key(100), testkit.Key(200)) }))
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	second, info2 := backUp(t, db, stoat.BackupOptions{Since: info})
	if info2.Entries != 0 || info2.Unchanged != 100 || len(second) > 3000 {
		t.Errorf("the second backup has %+v and %d bytes", info2, len(second))
	}
	third, info3 := backUp(t, db, stoat.BackupOptions{Since: info2})
	if info3.Entries+info3.Unchanged != 0 || info3.Since != info3.Version {
		t.Errorf("a backup without changes has %+v", info3)
	}
	testkit.SetKeys(t, db, 50, 51, 700, 'y')
	fourth, _ := backUp(t, db, stoat.BackupOptions{Since: info3})
	got := valuesOf(t, restore(t, full, second, third, fourth))
	if want := valuesOf(t, db); !maps.Equal(got, want) || len(got) != 101 {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
}

// The keyspace keeps one version until the second backup. So the first backup has the middle
// value alone. A compaction then drops that, and keeps the oldest one, which a snapshot sees.
func TestBackup_AChainGoesOnOnceNumVersionsIsRaised(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	keep := func(versions int) *stoat.Keyspace {
		ks, err := db.Keyspace("versions", &stoat.KeyspaceOptions{NumVersions: versions})
		testkit.Must(t, err)
		return ks
	}
	ks := keep(1)
	set := func(value string) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("key"), []byte(value)) }))
	}
	set("oldest")
	snapshot := testkit.Begin(t, db, stoat.ReadOnly)
	defer snapshot.Discard()
	set("middle")
	full, info := backUp(t, db, stoat.BackupOptions{})
	set("newest")
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	keep(2)
	more, info := backUp(t, db, stoat.BackupOptions{Since: info})
	if info.Entries != 1 || info.Unchanged != 1 {
		t.Fatalf("the second backup has %+v, want that it names the oldest value", info)
	}
	restored := restore(t, full, more)
	ks, err := restored.Keyspace("versions", nil)
	testkit.Must(t, err)
	testkit.Must(t, restored.View(func(tx stoat.Txn) error {
		value, err := tx.In(ks).Get([]byte("key"))
		if string(value) != "newest" {
			t.Errorf("the value is %q, %v", value, err)
		}
		return nil
	}))
	testkit.MustBeSound(t, restored)
}

func TestBackup_OfAnEmptyDatabaseBeginsAChain(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	first, info := backUp(t, db, stoat.BackupOptions{})
	testkit.SetKeys(t, db, 0, 5, 10, 'x')
	second, _ := backUp(t, db, stoat.BackupOptions{Since: info})
	if got := valuesOf(t, restore(t, first)); len(got) != 0 {
		t.Errorf("%d keys", len(got))
	}
	if got := valuesOf(t, restore(t, first, second)); len(got) != 5 {
		t.Errorf("%d keys", len(got))
	}
}

func TestBackup_VersionsLimitsWhatIsKept(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.NumVersions = 10 })
	for i := range 5 {
		testkit.SetKeys(t, db, 0, 3, 10+i, 'x')
	}
	for _, c := range []struct{ versions, want int }{{0, 15}, {1, 3}, {2, 6}, {9, 15}} {
		b, info := backUp(t, db, stoat.BackupOptions{Versions: c.versions})
		if info.Entries != uint64(c.want) {
			t.Errorf("%d versions: %+v", c.versions, info)
		}
		got := restore(t, b)
		testkit.Must(t, got.View(func(tx stoat.Txn) error {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{AllVersions: true})
			if len(items) != c.want {
				t.Errorf("%d versions: %d are restored, want %d", c.versions, len(items), c.want)
			}
			return err
		}))
	}
}

func TestBackup_AFailingWriterOrReaderIsAnError(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 3000, 900, 'x')
	broken := errors.New("broken")
	if _, err := db.Backup(ctx, &failingWriter{left: 40_000, err: broken}, stoat.BackupOptions{Compression: stoat.CompressionNone}); !errors.Is(err, broken) {
		t.Errorf("a failing writer: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	var to bytes.Buffer
	if _, err := db.Backup(done, &to, stoat.BackupOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled context: %v", err)
	}
	b, _ := backUp(t, db, stoat.BackupOptions{})
	o := stoat.RestoreOptions{Options: &stoat.Options{FS: memfs.New()}}
	half := io.MultiReader(bytes.NewReader(b[:len(b)/2]), iotest.ErrReader(broken))
	if _, err := stoat.Restore(ctx, "/r", o, half); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
	if _, err := stoat.Restore(done, "/r", o, bytes.NewReader(b)); !errors.Is(err, context.Canceled) {
		t.Errorf("restore with a canceled context: %v", err)
	}
	if _, err := stoat.Restore(ctx, "/r", o, iotest.OneByteReader(bytes.NewReader(b))); err != nil {
		t.Errorf("a slow reader: %v", err)
	}
	if _, err := stoat.Restore(ctx, "/r", o, bytes.NewReader(b)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("restore to a directory that exists: %v", err)
	}
}

type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// A closingWriter closes a database in one of its writes.
type closingWriter struct {
	db         *stoat.DB
	at, writes int
	closed     error
}

func (w *closingWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes == w.at {
		w.closed = w.db.Close()
	}
	return len(p), nil
}

func TestBackup_EndsWhenItsDatabaseIsClosed(t *testing.T) {
	t.Parallel()
	for _, at := range []int{2, 5} { // after the header, and after some tables
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
		testkit.SetKeys(t, db, 0, 4000, 900, 'x')
		testkit.Must(t, testkit.WaitForFlushes(db))
		w := &closingWriter{db: db, at: at}
		_, err := db.Backup(context.Background(), w, stoat.BackupOptions{Compression: stoat.CompressionNone})
		testkit.WantError(t, "Backup", err, stoat.ErrClosed)
		testkit.Must(t, w.closed)
		if w.writes > at+1 {
			t.Errorf("%d writes, and the database was closed in number %d", w.writes, at)
		}
	}
}

func TestBackup_TheNextOneOfARestoredDatabaseIsAChainOfItsOwn(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 10, 10, 'x')
	full, info := backUp(t, db, stoat.BackupOptions{})
	copied := restore(t, full)
	_, err := copied.Backup(context.Background(), io.Discard, stoat.BackupOptions{Since: info})
	testkit.WantError(t, "a backup since that of the original", err, stoat.ErrBackup)
	again, info2 := backUp(t, copied, stoat.BackupOptions{})
	if info2.Version != info.Version || info2.Database == info.Database {
		t.Errorf("%+v after %+v", info2, info)
	}
	testkit.SetKeys(t, copied, 5, 20, 10, 'y')
	more, _ := backUp(t, copied, stoat.BackupOptions{Since: info2})
	if got, want := valuesOf(t, restore(t, again, more)), valuesOf(t, copied); !maps.Equal(got, want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
}

// A read-only database can be backed up. An encrypted one makes a plain backup, which an
// encrypted one can be restored from.
func TestBackup_OfAReadOnlyAndOfAnEncryptedDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	disk := memfs.New()
	o := &stoat.Options{FS: disk, Keys: testkit.KeysIf(true)}
	db, err := stoat.Open("/db", o)
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 500, 900, 'x')
	testkit.Must(t, db.Close())
	read := *o
	read.ReadOnly = true
	db, err = stoat.Open("/db", &read)
	testkit.Must(t, err)
	b, _ := backUp(t, db, stoat.BackupOptions{})
	want := valuesOf(t, db)
	testkit.Must(t, db.Close())
	if got := valuesOf(t, restore(t, b)); !maps.Equal(got, want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	_, err = stoat.Restore(ctx, "/sealed", stoat.RestoreOptions{Options: o}, bytes.NewReader(b))
	testkit.Must(t, err)
	for name, content := range testkit.FilesOf(t, disk, "/sealed") {
		if strings.Contains(content, "key-0000") || strings.Contains(content, "xxxxxxxxxxxxxxxx") {
			t.Errorf("%s has plain text", name)
		}
	}
	db, err = stoat.Open("/sealed", o)
	testkit.Must(t, err)
	if got := valuesOf(t, db); !maps.Equal(got, want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestRestore_DoesNotMixTheRestsOfOthers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 2000, 900, 'x')
	b, _ := backUp(t, db, stoat.BackupOptions{Compression: stoat.CompressionNone})
	other, _ := backUp(t, db, stoat.BackupOptions{})
	disk := memfs.New()
	o := stoat.RestoreOptions{Options: &stoat.Options{FS: disk, MemtableSize: 64 << 10}}
	_, err := stoat.Restore(ctx, "/r", o, bytes.NewReader(b[:len(b)/2]))
	testkit.WantError(t, "half a backup", err, stoat.ErrCorrupt)
	_, err = stoat.Restore(ctx, "/r", o, bytes.NewReader(other))
	testkit.WantError(t, "another backup", err, stoat.ErrBackup)
	testkit.Must(t, testkit.WriteFile(disk, "/r.restore/letter", []byte("hello")))
	if _, err = stoat.Restore(ctx, "/r", o, bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "letter") {
		t.Errorf("beside the file of another program: %v", err)
	}
	testkit.Must(t, disk.Remove("/r.restore/letter"))
	lock, err := disk.LockDir("/r.restore")
	testkit.Must(t, err)
	_, err = stoat.Restore(ctx, "/r", o, bytes.NewReader(b))
	testkit.WantError(t, "beside another restore", err, stoat.ErrLocked)
	testkit.Must(t, lock.Close())
	_, err = stoat.Restore(ctx, "/r", o, bytes.NewReader(b))
	testkit.Must(t, err)
}

// Pointers have room for file numbers of 32 bits.
func TestRestore_DoesNotCountOnFromAForeignFile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 2000, 3000, 'x')
	b, _ := backUp(t, db, stoat.BackupOptions{Compression: stoat.CompressionNone})
	disk := memfs.New()
	o := stoat.RestoreOptions{Options: &stoat.Options{FS: disk, MemtableSize: 64 << 10}}
	_, err := stoat.Restore(ctx, "/r", o, bytes.NewReader(b[:len(b)/2]))
	testkit.WantError(t, "half a backup", err, stoat.ErrCorrupt)
	testkit.Must(t, testkit.WriteFile(disk, "/r.restore/8589934592.table", []byte("hello")))
	_, err = stoat.Restore(ctx, "/r", o, bytes.NewReader(b))
	testkit.Must(t, err)
	restored, err := stoat.Open("/r", o.Options)
	testkit.Must(t, err)
	if got, want := valuesOf(t, restored), valuesOf(t, db); !maps.Equal(got, want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	testkit.MustBeSound(t, restored)
	testkit.Must(t, restored.Close())
}

// A rewriter rewrites all values, or drops the keys, once it is told to.
type rewriter struct{ drops, rewrites atomic.Bool }

func (*rewriter) Name() string { return "rewriter" }

func (f *rewriter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	old, err := v.Bytes()
	switch {
	case f.drops.Load():
		return stoat.FilterDrop, nil
	case err == nil && f.rewrites.Load():
		return stoat.FilterRewrite, append(bytes.Clone(old), " new"...)
	}
	return stoat.FilterKeep, nil
}

func TestBackup_AChainHasWhatAFilterRewroteAndDropped(t *testing.T) {
	t.Parallel()
	filtered := func(db *stoat.DB) map[string]string {
		all := map[string]string{}
		ks, err := db.Keyspace("filtered", nil)
		testkit.Must(t, err)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for key, value := range tx.In(ks).All() {
				all[string(key)] = string(value)
			}
			return nil
		}))
		return all
	}
	for _, size := range []int{10, 700} { // in tables, and in value files
		var f rewriter
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.Filters = []stoat.Filter{&f} })
		choose := func(name string) *stoat.Keyspace {
			ks, err := db.Keyspace("filtered", &stoat.KeyspaceOptions{Filter: name})
			testkit.Must(t, err)
			return ks
		}
		set := func(from, to int) {
			testkit.SetKeys(t, db, from, to, size, 'x')
			ks := choose("")
			testkit.Must(t, db.Update(func(tx stoat.Txn) (err error) {
				for i := from; i < to && err == nil; i++ {
					err = tx.In(ks).Set(testkit.Key(i), bytes.Repeat([]byte("x"), size))
				}
				return err
			}))
		}
		choose("rewriter")
		set(0, 50)
		first, info := backUp(t, db, stoat.BackupOptions{})
		chain, before := [][]byte{first}, filtered(db)
		for i, act := range []func(){
			func() { f.rewrites.Store(true) }, // and no new version
			func() { set(20, 21) },
			func() {
				set(20, 30)
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				choose("none") // no backup has yet what the filter did
			},
			func() {
				set(20, 21)
				f.drops.Store(true)
				choose("rewriter")
			},
		} {
			act()
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			next, now := backUp(t, db, stoat.BackupOptions{Since: info})
			chain, info = append(chain, next), now
			after := filtered(db)
			if unchanged, n := int(now.Unchanged), len(after); unchanged < 40 || int(now.Entries) != 50-unchanged+n || maps.Equal(after, before) {
				t.Errorf("backup %d has %+v, the keyspace with the filter has %d keys, and had %d", i, now, n, len(before))
			}
			before = after
			copied := restore(t, chain...)
			if !maps.Equal(valuesOf(t, copied), valuesOf(t, db)) || !maps.Equal(filtered(copied), after) {
				t.Errorf("backup %d restores other values", i)
			}
		}
		testkit.Must(t, db.Close())
	}
}
