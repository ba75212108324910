package steps

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

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
