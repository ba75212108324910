package behaviour

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// A page of a temporary table is lost while a bulk load merges its runs.
func TestBulkLoad_AFaultInATemporaryTableLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	faults := faultfs.New(vfs.OS())
	fs := watchFiles(faults, func(int) {})
	db, err := stoat.Open(dir, &stoat.Options{FS: fs, MemtableSize: 64 << 10})
	testkit.Must(t, err)
	tables := func() (names []string) {
		all, err := os.ReadDir(dir)
		testkit.Must(t, err)
		for _, e := range all {
			if strings.HasSuffix(e.Name(), ".table") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	before, goroutines := tables(), runtime.NumGoroutine()
	var mu sync.Mutex
	reads, last := 0, ""
	faults.Observe(func(op vfs.Op) {
		if op.Kind != vfs.OpRead || op.Category != vfs.CatTable || op.Len < 1000 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if reads++; reads >= 20 && reads < 24 && last != op.Path {
			_ = os.Truncate(last, 0) // another table of the merge, which is open
		}
		last = op.Path
	})
	rng := rand.New(rand.NewPCG(1, 2))
	_, err = db.BulkLoad(context.Background(), func(yield func(stoat.Entry, error) bool) {
		for _, i := range rng.Perm(20_000) {
			if !yield(stoat.Entry{Key: testkit.Key(i), Value: make([]byte, 200)}, nil) {
				return
			}
		}
	}, stoat.IngestOptions{Memory: 256 << 10})
	faults.Observe(nil)
	testkit.WantError(t, "bulk load", err, vfs.ErrIO)
	testkit.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
	if left := tables(); len(left) > len(before) {
		t.Errorf("temporary tables are left: %v", left)
	}
	testkit.Must(t, db.Close())
	if left := fs.names(); len(left) > 0 {
		t.Errorf("still open: %v", left)
	}
}
