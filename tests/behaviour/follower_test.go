package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// follow opens a follower that follows when it is asked to.
func follow(t *testing.T, fs vfs.FS) *stoat.DB {
	t.Helper()
	db, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: fs, FollowEvery: -1})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return db
}

// newWriter opens a new database. It closes the database at the end.
func newWriter(t *testing.T) (disk *memfs.FS, db *stoat.DB) {
	t.Helper()
	disk = memfs.New()
	db = testkit.OpenOn(t, disk, nil)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return disk, db
}

// wantKey demands the value of a key.
func wantKey(t *testing.T, db *stoat.DB, key, want string) {
	t.Helper()
	got := "(none)"
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		v, err := tx.GetCopy([]byte(key), nil)
		if errors.Is(err, stoat.ErrNotFound) {
			return nil
		}
		got = string(v)
		return err
	}))
	if got != want {
		t.Errorf("%s is %.40q, want %.40q", key, got, want)
	}
}

func set(t *testing.T, db *stoat.DB, key, value string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte(value)) }))
}

func TestFollower_SeesCommitsAfterRefreshOnly(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	set(t, db, "key", "one")
	f := follow(t, disk)
	wantKey(t, f, "key", "one")
	set(t, db, "key", "two")
	wantKey(t, f, "key", "one")
	snapshot, err := f.Snapshot(stoat.SnapshotOptions{})
	testkit.Must(t, err)
	defer snapshot.Close()
	testkit.Must(t, f.Refresh(t.Context()))
	wantKey(t, f, "key", "two")
	testkit.Must(t, snapshot.View(func(tx stoat.Txn) error {
		v, err := tx.Get([]byte("key"))
		if string(v) != "one" {
			t.Errorf("the snapshot has %q", v)
		}
		return err
	}))
}

func TestFollower_WithoutADatabaseThereIsNothingToFollow(t *testing.T) {
	t.Parallel()
	if _, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: memfs.New()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v, want fs.ErrNotExist", err)
	}
}

func TestFollower_FollowsByItself(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	defer f.Close()
	set(t, db, "key", "one")
	testkit.Eventually(t, "the follower sees the commit", func() bool {
		return f.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("key")); return err }) == nil
	})
}

func TestFollower_TakesNoLockAndChangesNothing(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	disk.SetHook(func(op vfs.Op) {
		if op.Kind.Mutates() {
			t.Errorf("a follower does %v", op)
		}
	})
	f := follow(t, disk)
	testkit.Must(t, f.Refresh(t.Context()))
	testkit.MustBeSound(t, f)
	disk.SetHook(nil)
	db := testkit.OpenOn(t, disk, nil) // which a lock would keep out
	set(t, db, "key", "one")
	testkit.Must(t, db.Close())
	testkit.Must(t, f.Refresh(t.Context()))
	wantKey(t, f, "key", "one")
}

func TestFollower_ReadsFilesThatTheWriterHasDeleted(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	defer db.Close()
	f := follow(t, disk)
	testkit.DeleteKeys(t, db, 0, 1500)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if stats := db.Stats(); stats.Tables > 0 {
		t.Fatalf("%d tables are left", stats.Tables)
	}
	n := 0
	testkit.Must(t, f.View(func(tx stoat.Txn) error {
		for _, v := range tx.All() {
			n += min(len(v), 1)
		}
		return tx.Err()
	}))
	if n != 1410 {
		t.Errorf("the follower reads %d keys, want 1410", n)
	}
	testkit.Must(t, f.Refresh(t.Context()))
	testkit.Must(t, f.View(func(tx stoat.Txn) error {
		for k := range tx.All() {
			t.Errorf("%q is still there", k)
		}
		return tx.Err()
	}))
}

// An appearing is a file system that calls appear once, after its nth look at a directory
// or a file.
type appearing struct {
	vfs.FS
	n      int
	appear func()
}

func (a *appearing) looked() {
	if a.n--; a.n == 0 {
		a.appear()
	}
}

func (a *appearing) List(dir string) ([]string, error) {
	defer a.looked()
	return a.FS.List(dir)
}

func (a *appearing) Stat(name string) (vfs.Info, error) {
	defer a.looked()
	return a.FS.Stat(name)
}

func (a *appearing) Open(name string, c vfs.Category) (vfs.File, error) {
	defer a.looked()
	return a.FS.Open(name, c)
}

func TestFollower_ADatabaseMadeWhileItOpensIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	for _, keys := range []struct{ writer, follower stoat.KeyProvider }{
		{nil, nil}, {testkit.Keys, testkit.Keys}, {testkit.Keys, nil}, {nil, testkit.Keys},
	} {
		for n := 1; ; n++ {
			disk := memfs.New()
			made := false
			fs := &appearing{FS: disk, n: n, appear: func() {
				made = true
				db := openEncrypted(t, disk, func(o *stoat.Options) { o.Keys = keys.writer })
				set(t, db, "key", "value")
				testkit.Must(t, db.Close())
			}}
			db, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: fs, Keys: keys.follower, FollowEvery: -1})
			otherKeys := (keys.writer == nil) != (keys.follower == nil)
			switch {
			case err == nil:
				testkit.Must(t, db.Close())
			case !errors.Is(err, vfs.ErrNotExist) && !(otherKeys && errors.Is(err, stoat.ErrKey)) || errors.Is(err, stoat.ErrCorrupt):
				t.Fatalf("made after look %d: %v", n, err)
			}
			if !made {
				break
			}
		}
	}
}

func TestFollower_WritesAreErrReadOnly(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	f := follow(t, disk)
	_, err := f.Begin(stoat.ReadWrite)
	testkit.WantError(t, "Begin", err, stoat.ErrReadOnly)
	testkit.WantError(t, "Compact", f.Compact(t.Context(), stoat.CompactOptions{}), stoat.ErrReadOnly)
	testkit.WantError(t, "Collect", f.Collect(t.Context()), stoat.ErrReadOnly)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.WantError(t, "Refresh", f.Refresh(ctx), context.Canceled)
}

func TestFollower_AnotherDatabaseInTheDirectoryIsErrStale(t *testing.T) {
	t.Parallel()
	testkit.WantError(t, "Refresh", followAnother(t), stoat.ErrStale)
}

// followAnother puts another database in the place of one that is followed. It returns the
// error of Refresh.
func followAnother(t *testing.T) (err error) {
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	set(t, db, "key", "one")
	testkit.Must(t, db.Close())
	f := follow(t, disk)
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, name)))
	}
	if err := f.Refresh(t.Context()); err == nil {
		t.Error("Refresh finds no database and says nothing")
	}
	db = testkit.OpenOn(t, disk, nil)
	set(t, db, "key", "two")
	testkit.Must(t, db.Close())
	err = f.Refresh(t.Context()) // the other manifest has the name of the old one
	wantKey(t, f, "key", "one")
	return err
}

func TestFollower_DamageInTheLogIsFound(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	for i := range 20 {
		set(t, db, fmt.Sprint("key", i), "value")
	}
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if name == "000001.log" {
			file, err := disk.OpenReadWrite(disk.Join(testkit.Dir, name), vfs.CatLog)
			testkit.Must(t, err)
			_, err = file.WriteAt([]byte{1, 2, 3}, 8192+50)
			testkit.Must(t, err)
			testkit.Must(t, file.Close())
		}
	}
	f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, FollowEvery: -1})
	if err == nil {
		_, err = f.Check(t.Context(), stoat.CheckOptions{})
		testkit.Must(t, f.Close())
	}
	testkit.WantError(t, "a follower of a damaged log", err, stoat.ErrCorrupt)
}

func TestFollower_ReadFailuresDoNotStick(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	set(t, db, "key", "one")
	faults := faultfs.New(disk)
	f := follow(t, faults)
	for _, kind := range []vfs.OpKind{vfs.OpRead, vfs.OpOpen, vfs.OpList, vfs.OpStat, vfs.OpMap} {
		set(t, db, "key", kind.String())
		fault := faults.Add(faultfs.Rule{Op: kind, Forever: true})
		err := f.Refresh(t.Context())
		if (fault.Fired() > 0 || kind == vfs.OpRead) && err == nil && kind != vfs.OpMap {
			t.Errorf("%v failed, and Refresh says nothing", kind)
		}
		faults.Clear()
		testkit.Must(t, f.Refresh(t.Context()))
		wantKey(t, f, "key", kind.String())
	}
}

func TestFollower_RefreshEndsWithItsContextAndTheNextOneGoesOn(t *testing.T) {
	t.Parallel()
	// In a bubble no second passes, after which an idle writer flushes and frees the log.
	synctest.Test(t, func(t *testing.T) {
		const commits, most, slack = 100, 6, 3
		disk := memfs.New()
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		testkit.Must(t, err)
		defer func() { testkit.Must(t, db.Close()) }()
		faults := faultfs.New(disk)
		watched := &testkit.WatchedLog{FS: faults}
		f := follow(t, watched)
		for i := range commits {
			set(t, db, fmt.Sprint(i), strings.Repeat("v", 30_000))
		}
		faults.Add(faultfs.Rule{Op: vfs.OpRead, Category: vfs.CatLog}) // so it reads the log anew
		for tries := 0; ; tries++ {
			ctx, cancel := context.WithCancel(t.Context())
			reads := 0
			watched.Read = func(string) {
				if reads++; reads == most {
					cancel()
				}
			}
			err := f.Refresh(ctx)
			cancel()
			if tries > 0 && err == nil {
				break
			}
			testkit.WantError(t, "Refresh", err, context.Canceled)
			if reads > most+slack { // it ends with a commit
				t.Errorf("Refresh goes on for %d reads", reads-most)
			}
			if tries == commits {
				t.Fatal("Refresh begins anew")
			}
		}
		watched.Read = nil
		for i := range commits {
			wantKey(t, f, fmt.Sprint(i), strings.Repeat("v", 30_000))
		}
		testkit.MustBeSound(t, f)
	})
}

func TestFollower_RefreshThatWaitsForAnotherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	watched := &testkit.WatchedLog{FS: disk}
	f := follow(t, watched)
	set(t, db, "a", "1")
	reading, goOn, first := make(chan struct{}), make(chan struct{}), make(chan error)
	watched.Read = func(string) {
		watched.Read = nil
		close(reading)
		<-goOn
	}
	go func() { first <- f.Refresh(t.Context()) }()
	<-reading
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	second := make(chan error, 1)
	go func() { second <- f.Refresh(ctx) }()
	select {
	case err := <-second:
		testkit.WantError(t, "Refresh", err, context.DeadlineExceeded)
	case <-time.After(time.Minute):
		t.Error("Refresh ignores its context")
	}
	close(goOn)
	testkit.Must(t, <-first)
	wantKey(t, f, "a", "1")
}

// wantOpeningFindsDamage demands that OpenFollower finds a byte that is damaged meanwhile.
func wantOpeningFindsDamage(t *testing.T, disk *memfs.FS, path string, at int64) {
	t.Helper()
	flipByte(t, disk, path, at)
	defer flipByte(t, disk, path, at)
	f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, FollowEvery: -1})
	if err == nil {
		testkit.Must(t, f.Close())
	}
	testkit.WantError(t, "OpenFollower", err, stoat.ErrCorrupt)
}

// wantRefreshFindsDamage demands that every Refresh finds a byte that is damaged meanwhile,
// and that the follower then goes on.
func wantRefreshFindsDamage(t *testing.T, f *stoat.DB, disk *memfs.FS, path string, at int64) {
	t.Helper()
	flipByte(t, disk, path, at)
	testkit.Eventually(t, "Refresh finds the damage", func() bool { return f.Refresh(t.Context()) != nil })
	for range 3 {
		testkit.WantError(t, "Refresh", f.Refresh(t.Context()), stoat.ErrCorrupt)
	}
	flipByte(t, disk, path, at)
	testkit.Must(t, f.Refresh(t.Context()))
	testkit.MustBeSound(t, f)
}

func TestFollower_OpeningFindsDamageInTheSealedLog(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, commitValue(db, "the first value"))
	path, first := placeInLog(t, disk, "the first value")
	testkit.Must(t, commitValue(db, "the last value"))
	_, last := placeInLog(t, disk, "the last value")
	testkit.Must(t, db.Close())
	for _, at := range []int64{first, last} {
		wantOpeningFindsDamage(t, disk, path, at)
	}
	testkit.MustBeSound(t, follow(t, disk))
}

func TestFollower_OpeningFindsDamageInTheLogOfAWriter(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	testkit.Must(t, commitValue(db, "the first value"))
	path, at := placeInLog(t, disk, "the first value")
	testkit.Must(t, commitValue(db, "the last value"))
	wantOpeningFindsDamage(t, disk, path, at)
}

func TestFollower_EachRefreshReportsTheDamage(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f := follow(t, disk)
	testkit.Must(t, commitValue(db, "the first value"))
	path, at := placeInLog(t, disk, "the first value")
	testkit.Must(t, commitValue(db, "the last value"))
	wantRefreshFindsDamage(t, f, disk, path, at)
}

// placeOfLastEdit returns a place in the last edit of the manifest, before its mark.
func placeOfLastEdit(t *testing.T, disk *memfs.FS) (path string, at int64) {
	t.Helper()
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST") {
			path = disk.Join(testkit.Dir, name)
			content, err := testkit.ReadFile(disk, path)
			testkit.Must(t, err)
			return path, int64(len(bytes.TrimRight(content, "\x00"))) - 40 // which the mark does not take
		}
	}
	t.Fatal("there is no manifest")
	return "", 0
}

func TestFollower_OpeningFindsDamageInTheManifestOfAWriter(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	testkit.SetKeys(t, db, 0, 600, 300, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	path, at := placeOfLastEdit(t, disk)
	wantOpeningFindsDamage(t, disk, path, at)
	testkit.MustBeSound(t, follow(t, disk))
}

func TestFollower_FindsDamageThatTheManifestGetsLater(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f, checked := follow(t, disk), follow(t, disk)
	testkit.SetKeys(t, db, 0, 600, 300, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	path, at := placeOfLastEdit(t, disk)
	flipByte(t, disk, path, at)
	_, err := checked.Check(t.Context(), stoat.CheckOptions{})
	testkit.WantError(t, "Check", err, stoat.ErrCorrupt)
	flipByte(t, disk, path, at)
	wantRefreshFindsDamage(t, f, disk, path, at)
}

// A drop records the keyspace as dropped, and then commits the deletion. A follower may see
// the one without the other.
func TestFollower_ASnapshotOfADroppedKeyspaceKeepsItsData(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	space, err := db.Keyspace("space", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(space).Set([]byte("key"), []byte("one")) }))
	f := follow(t, disk)
	seen, err := f.Keyspace("space", nil)
	testkit.Must(t, err)
	snapshot, err := f.Snapshot(stoat.SnapshotOptions{})
	testkit.Must(t, err)
	defer snapshot.Close()
	var once sync.Once
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, ".log") {
			once.Do(func() {
				// On a goroutine of its own: this one holds locks of the writer.
				refreshed := make(chan error)
				go func() { refreshed <- f.Refresh(t.Context()) }()
				testkit.Must(t, <-refreshed)
			})
		}
	})
	testkit.Must(t, db.DropKeyspace("space"))
	disk.SetHook(nil)
	read := func(tx stoat.Txn) error { _, err := tx.In(seen).Get([]byte("key")); return err }
	testkit.Must(t, snapshot.View(read))
	testkit.Must(t, f.Refresh(t.Context()))
	testkit.Must(t, snapshot.View(read))
	testkit.WantError(t, "a read after the drop", f.View(read), stoat.ErrNoKeyspace)
}

// The sync of an edit fails after a follower has read it, and the system drops the page. The next
// writer appends other edits in its place, to the same file.
func TestFollower_GoesOnAfterAnEditThatIsLost(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := faultfs.New(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	set(t, db, "a", "1")
	testkit.Must(t, db.Sync())
	path := disk.Join(testkit.Dir, manifest.FileName(1))
	before, err := testkit.ReadFile(disk, path)
	testkit.Must(t, err)
	f := follow(t, disk)
	lost := strings.Repeat("lost", 10) // longer than the next edit
	keyspace(t, db, lost)
	testkit.Must(t, f.Refresh(t.Context()))
	_, err = f.Keyspace(lost, nil)
	testkit.Must(t, err)

	faults.Add(faultfs.Rule{Op: vfs.OpAny, Forever: true, Sync: vfs.SyncNotTried})
	_ = db.Close() // it fails
	file, err := disk.OpenReadWrite(path, vfs.CatManifest)
	testkit.Must(t, err)
	_, err = file.WriteAt(before, 0)
	testkit.Must(t, errors.Join(err, file.Close()))
	db = testkit.OpenOn(t, disk, nil)
	set(t, db, "a", "2")
	testkit.Must(t, f.Refresh(t.Context()))
	wantKey(t, f, "a", "2")
	_, err = f.Keyspace(lost, nil)
	testkit.WantError(t, "the lost keyspace", err, stoat.ErrNoKeyspace)
	if _, err := disk.Stat(path); err != nil {
		t.Errorf("the next writer has replaced the manifest: %v", err)
	}
	testkit.Must(t, db.Close())
}

// A pieces is a disk whose listing number n lacks manifests: the old one was removed before its
// piece of the directory was read, and the new one came into a piece that was read before.
type pieces struct {
	vfs.FS
	n int
}

func (p *pieces) List(dir string) ([]string, error) {
	names, err := p.FS.List(dir)
	if p.n--; p.n == 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "MANIFEST-") })
	}
	return names, err
}

func TestFollower_OpensWhileItsWriterReplacesTheManifest(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	set(t, db, "a", "1")
	for n, listed := 1, true; listed; n++ {
		fs := &pieces{disk, n}
		f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: fs, FollowEvery: -1})
		if err != nil {
			t.Fatalf("listing %d: %v", n, err)
		}
		report, err := f.Check(t.Context(), stoat.CheckOptions{})
		testkit.Must(t, err)
		if len(report.Problems) > 0 {
			t.Errorf("listing %d: %v", n, report.Problems)
		}
		testkit.Must(t, f.Close())
		listed = fs.n <= 0
	}
}
