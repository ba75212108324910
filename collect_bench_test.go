package stoat

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// BenchmarkCollect collects an eighth of the values in eight files, which lie in the
// order of their keys or mixed. It reports what the collection reads of tables, in
// parts of their size, and of value files, in parts of what is live. One operation is
// all of that.
func BenchmarkCollect(b *testing.B) {
	for _, mixed := range []bool{false, true} {
		b.Run(fmt.Sprintf("mixed=%v", mixed), func(b *testing.B) {
			var tables, values float64
			for range b.N {
				b.StopTimer()
				t, v := benchCollect(b, mixed)
				tables, values = tables+t, values+v
			}
			b.ReportMetric(tables/float64(b.N), "tables-read")
			b.ReportMetric(values/float64(b.N), "values-read")
		})
	}
}

const (
	collectKeys  = 256 << 10
	collectFiles = 8
)

// benchCollect makes a database and collects its garbage while the timer runs.
func benchCollect(b *testing.B, mixed bool) (tablesRead, valuesRead float64) {
	disk := faultfs.New(vfs.OS())
	db, err := openWith(filepath.Join(b.TempDir(), "db"),
		&Options{FS: disk, Durability: Buffered, MemtableSize: 256 << 20}, work.Executor{Manual: true})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	order, value := rng.Perm(collectKeys), make([]byte, 1<<10)
	if !mixed {
		for i := range order {
			order[i] = i
		}
	}
	update := func(keys []int, write func(tx Txn, key []byte) error) {
		for ; len(keys) > 0; keys = keys[min(len(keys), 1000):] {
			if err := db.Update(func(tx Txn) error {
				for _, k := range keys[:min(len(keys), 1000)] {
					if err := write(tx, fmt.Appendf(nil, "key-%012d", k)); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
		if err := db.engine.Commits.Rotate(true); err != nil {
			b.Fatal(err)
		}
		if _, err := db.engine.Jobs.FlushNext(); err != nil {
			b.Fatal(err)
		}
	}
	for part := range collectFiles {
		update(order[part*collectKeys/collectFiles:(part+1)*collectKeys/collectFiles],
			func(tx Txn, key []byte) error { return tx.Set(key, value) })
	}
	update(rng.Perm(collectKeys)[:collectKeys/8], func(tx Txn, key []byte) error { return tx.Delete(key) })
	if err := mergeAll(db); err != nil {
		b.Fatal(err)
	}
	before := db.Stats()
	var tables, values atomic.Int64
	disk.Observe(func(op vfs.Op) {
		switch {
		case op.Kind == vfs.OpRead && op.Category == vfs.CatTable:
			tables.Add(op.Len)
		case op.Kind == vfs.OpRead && op.Category == vfs.CatValue:
			values.Add(op.Len)
		}
	})
	b.StartTimer()
	err = db.Collect(b.Context())
	b.StopTimer()
	disk.Observe(nil)
	after := db.Stats()
	if err != nil || before.ValueGarbage == 0 || after.ValueGarbage != 0 {
		b.Fatalf("of %d bytes of garbage %d are left: %v", before.ValueGarbage, after.ValueGarbage, err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return float64(tables.Load()) / float64(before.TableBytes), float64(values.Load()) / float64(after.ValueBytes)
}
