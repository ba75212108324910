package stoat

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// openAssembled opens a database whose jobs run only when a test calls their steps.
func openAssembled(t *testing.T, fs vfs.FS) *DB {
	t.Helper()
	d, err := openWith("/db", &Options{FS: fs, MemtableSize: 1 << 20}, work.Executor{Manual: true})
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
		err := d.Update(func(tx Txn) error {
			for i := range 6000 {
				if err := tx.Set(fmt.Appendf(nil, "%04d.%d", i, round), make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = d.engine.Commits.Rotate(true)
		}
		if err == nil {
			_, err = d.engine.Jobs.FlushNext()
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
	if now, _ := d.engine.Activity.Load(); now != work.Idle {
		t.Errorf("load %d after Open, want idle", now)
	}
}

// Close waits for the callback, which must not begin a long job meanwhile.
func TestAssemble_CloseRefusesOperationsWhileItWaits(t *testing.T) {
	t.Parallel()
	d, err := Open("/db", &Options{FS: memfs.NewVolatile()})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := d.Begin(ReadWrite)
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
		for !d.engine.Store.Closed() {
			runtime.Gosched()
		}
		got <- d.Compact(t.Context(), CompactOptions{})
	})
	<-called
	closed := make(chan error, 1)
	go func() { close(closing); closed <- d.Close() }()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("Compact while Close waits: %v, want ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
