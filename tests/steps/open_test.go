package steps

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// openAssembled opens a database whose jobs run only when a test calls their steps.
func openAssembled(t *testing.T, fs vfs.FS) *inside.DB {
	t.Helper()
	d, err := inside.Open("/db", &stoat.Options{FS: fs, MemtableSize: 1 << 20}, work.Executor{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAssemble_DebtIsKnownAfterOpen(t *testing.T) {
	t.Parallel()
	fs := memfs.NewVolatile()
	d := openAssembled(t, fs)
	for round := range 24 {
		err := d.Update(func(tx stoat.Txn) error {
			for i := range 6000 {
				if err := tx.Set(fmt.Appendf(nil, "%04d.%d", i, round), make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = d.Engine.Commits.Rotate(true)
		}
		if err == nil {
			_, err = d.Engine.Jobs.FlushNext()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := d.Stats().Debt
	if before == 0 {
		t.Fatal("a database with many runs has no debt")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openAssembled(t, fs)
	defer d.Close()
	if after := d.Stats().Debt; after != before {
		t.Errorf("debt %d after Open, %d before Close", after, before)
	}
}

// No commit has arrived, so one seed of a test is one history.
func TestAssemble_AManualDatabaseOpensIdle(t *testing.T) {
	t.Parallel()
	d := openAssembled(t, memfs.NewVolatile())
	defer d.Close()
	if now, _ := d.Engine.Activity.Load(); now != work.Idle {
		t.Errorf("load %d after Open, want idle", now)
	}
}

// Close waits for the callback, which must not begin a long job meanwhile.
func TestAssemble_CloseRefusesOperationsWhileItWaits(t *testing.T) {
	t.Parallel()
	d, err := inside.Open("/db", &stoat.Options{FS: memfs.NewVolatile()}, work.Executor{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := d.Begin(stoat.ReadWrite)
	if err == nil {
		err = tx.Set([]byte("k"), []byte("v"))
	}
	if err != nil {
		t.Fatal(err)
	}
	called, closing, got := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	tx.CommitAsync(func(uint64, error) {
		close(called)
		<-closing
		for !d.Engine.Store.Closed() {
			runtime.Gosched()
		}
		got <- d.Compact(t.Context(), stoat.CompactOptions{})
	})
	<-called
	closed := make(chan error, 1)
	go func() { close(closing); closed <- d.Close() }()
	if err := <-got; !errors.Is(err, stoat.ErrClosed) {
		t.Errorf("Compact while Close waits: %v, want ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// The disk has room for a log, and none for a larger manifest to name it.
func TestOpen_ALogThatTheManifestHasNoRoomForLeavesNoFiles(t *testing.T) {
	t.Parallel()
	fs := faultfs.New(memfs.New())
	set := func(db *inside.DB) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) })
	}
	db := openStillOn(t, fs)
	testkit.Must(t, set(db))
	testkit.Must(t, db.Close())

	db = openStillOn(t, fs)
	fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatManifest, Forever: true, Err: vfs.ErrNoSpace})
	var full error
	for next := db.Engine.Manifest.State().NextFile; full == nil; next++ {
		full = db.Engine.Manifest.Append(manifest.Edit{NextFile: manifest.Some(next)})
	}
	logs := func() (n int) {
		names, err := fs.List("/db")
		testkit.Must(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				n++
			}
		}
		return n
	}
	before := logs()
	for range 40 {
		if err := set(db); !errors.Is(err, stoat.ErrNoSpace) {
			t.Fatalf("a commit without a log: %v, want %v", err, stoat.ErrNoSpace)
		}
	}
	if after := logs(); after != before {
		t.Errorf("%d log files, %d before the commits that failed", after, before)
	}
	fs.Clear()
	testkit.Must(t, set(db))
}

// A database may have been closed with many runs. Readers merge all of them, until a merge
// has. Where the bytes are in value files, the first pass of a reader comes first.
func TestOpen_MergesRunsSoonForReaders(t *testing.T) {
	t.Parallel()
	const runs = 8
	for _, test := range []struct {
		name   string
		size   int // of values
		before time.Duration
		merged time.Duration
	}{
		{"values in tables", 100, 5 * time.Millisecond, 50 * time.Millisecond},
		{"values apart", 4000, 300 * time.Millisecond, 600 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opts := &stoat.Options{FS: memfs.New()}
			db, err := inside.Open("/db", opts, work.Executor{Manual: true})
			testkit.Must(t, err)
			for run := range runs {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error {
					for i := run; i < 400; i += 3 {
						if err := tx.Set(fmt.Appendf(nil, "key-%03d", i), make([]byte, test.size)); err != nil {
							return err
						}
					}
					return nil
				}))
				mustFlush(t, db)
			}
			testkit.Must(t, db.Close())
			synctest.Test(t, func(t *testing.T) {
				opened := time.Now()
				db, err := inside.Open("/db", opts, work.Executor{})
				testkit.Must(t, err)
				time.Sleep(test.before)
				synctest.Wait()
				if got := db.Engine.Store.Version().Runs(); got != runs {
					t.Errorf("%d runs at once, want %d", got, runs)
				}
				time.Sleep(test.merged - time.Since(opened))
				synctest.Wait()
				if got := db.Engine.Store.Version().Runs(); got > runs/2 {
					t.Errorf("%d runs after %s", got, test.merged)
				}
				testkit.Must(t, db.Close())
			})
		})
	}
}

// A panickyUser is a clock and a provider of keys. Its call with the number at panics.
type panickyUser struct {
	stoat.KeyProvider
	at, calls int
}

func (u *panickyUser) call() {
	if u.calls++; u.calls == u.at {
		panic("on purpose")
	}
}

func (u *panickyUser) Now() time.Time {
	u.call()
	return time.UnixMilli(1000)
}

func (u *panickyUser) Current(ctx context.Context) (string, []byte, error) {
	u.call()
	return u.KeyProvider.Current(ctx)
}

func (u *panickyUser) Key(ctx context.Context, id string) ([]byte, error) {
	u.call()
	return u.KeyProvider.Key(ctx, id)
}

// The clock or the provider of keys panics in each of the calls that Open makes.
func TestOpen_ThatAPanicEndsLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]func(o *stoat.Options, u *panickyUser){
		"keys":                  func(o *stoat.Options, u *panickyUser) { o.Keys = u },
		"keys, to read":         func(o *stoat.Options, u *panickyUser) { o.Keys, o.ReadOnly = u, true },
		"clock":                 func(o *stoat.Options, u *panickyUser) { o.Clock = u },
		"clock, with good keys": func(o *stoat.Options, u *panickyUser) { o.Clock, o.Keys = u, testkit.Keys },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			disk := memfs.New()
			open := func(u *panickyUser) (db *inside.DB, panicked any) {
				defer func() { panicked = recover() }()
				opts := &stoat.Options{FS: disk}
				set(opts, u)
				opts.ReadOnly = opts.ReadOnly && u.at > 0 // a good user also writes
				db, err := inside.Open("/db", opts, work.Executor{Manual: true})
				testkit.Must(t, err)
				return db, nil
			}
			use := func() {
				db, _ := open(&panickyUser{KeyProvider: testkit.Keys})
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) }))
				testkit.Must(t, db.Close())
			}
			for at := 1; ; at++ {
				if strings.Contains(what, "to read") {
					use()
				}
				db, panicked := open(&panickyUser{KeyProvider: testkit.Keys, at: at})
				if panicked == nil {
					testkit.Must(t, db.Close())
					if at == 1 {
						t.Error("Open makes no call that panics")
					}
					return
				}
				use()
			}
		})
	}
}

// Programs that end soon, without Close, leave logs that the next Open flushes. Where Open
// fails to store another NumVersions, the flush must not go by that.
func TestOpen_ThatCannotStoreItsSettingsDropsNoVersions(t *testing.T) {
	t.Parallel()
	open := func(fs vfs.FS, versions int) (*inside.DB, error) {
		return inside.Open("/db", &stoat.Options{FS: fs, NumVersions: versions}, work.Executor{Manual: true})
	}
	disk := memfs.New()
	for i := range 17 {
		db, err := open(disk, 10)
		testkit.Must(t, err)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), fmt.Append(nil, i)) }))
		killed := disk.Clone()
		testkit.Must(t, db.Close())
		disk = killed
	}
	versionsOn := func(disk *memfs.FS) (n int) {
		db, err := open(disk, 0)
		testkit.Must(t, err)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{AllVersions: true})
			defer it.Close()
			for it.Next() {
				n++
			}
			return it.Err()
		}))
		testkit.Must(t, db.Close())
		return n
	}
	failed := 0
	for nth := int64(1); ; nth++ {
		left := disk.Clone()
		faults := faultfs.New(left)
		fault := faults.Add(faultfs.Rule{Op: vfs.OpWrite, Category: vfs.CatManifest, Nth: nth, Forever: true})
		db, err := open(faults, 1)
		if err == nil {
			_ = db.Close() // it fails if the flush could not write the manifest
		}
		switch n := versionsOn(left); {
		case err != nil:
			if failed++; n < 10 {
				t.Errorf("without the write %d of the manifest, Open fails and leaves %d versions", nth, n)
			}
		case fault.Fired() > 0:
		case n != 1 || failed == 0:
			t.Errorf("after %d failures, Open succeeds and leaves %d versions, want 1", failed, n)
			return
		default:
			return
		}
	}
}
