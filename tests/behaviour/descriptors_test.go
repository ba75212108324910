package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An openFiles knows the open files of a file system.
type openFiles struct {
	vfs.FS
	opened func(now int) // is called with the number of open files, after each Open

	mu   sync.Mutex
	open map[*openFile]bool
}

// An openFile is a file of an openFiles.
type openFile struct {
	vfs.File
	of *openFiles
}

func watchFiles(fs vfs.FS, opened func(now int)) *openFiles {
	return &openFiles{FS: fs, opened: opened, open: map[*openFile]bool{}}
}

func (o *openFiles) add(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	x := &openFile{f, o}
	o.open[x] = true
	o.opened(len(o.open))
	return x, nil
}

func (o *openFiles) Create(name string, c vfs.Category) (vfs.File, error) {
	return o.add(o.FS.Create(name, c))
}

func (o *openFiles) Open(name string, c vfs.Category) (vfs.File, error) {
	return o.add(o.FS.Open(name, c))
}

func (o *openFiles) OpenReadWrite(name string, c vfs.Category) (vfs.File, error) {
	return o.add(o.FS.OpenReadWrite(name, c))
}

func (f *openFile) Close() error {
	f.of.mu.Lock()
	delete(f.of.open, f)
	f.of.mu.Unlock()
	return f.File.Close()
}

// names returns the names of the open files.
func (o *openFiles) names() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for f := range o.open {
		names = append(names, f.Name())
	}
	return names
}

func TestDescriptors_JobsThroughManyTablesHoldFew(t *testing.T) {
	ctx := context.Background()
	var most atomic.Int64
	fs := watchFiles(memfs.New(), func(now int) { most.Store(max(most.Load(), int64(now))) })
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, MemtableSize: 64 << 10, Durability: stoat.Buffered})
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 40_000
	key := func(i int) []byte {
		return append(fmt.Appendf(nil, "key-%06d-", i), bytes.Repeat([]byte{byte(i)}, 240)...)
	}
	most.Store(0)
	_, err = db.BulkLoad(ctx, func(yield func(stoat.Entry, error) bool) {
		for _, i := range rng.Perm(n) {
			v := make([]byte, 600)
			for j := range v {
				v[j] = byte(rng.Uint32())
			}
			if !yield(stoat.Entry{Key: key(i), Value: v}, nil) {
				return
			}
		}
	}, stoat.IngestOptions{Memory: 2 << 20})
	testkit.Must(t, err)
	if most.Load() > 100 {
		t.Errorf("a bulk load of %d MiB opens %d files at once", n*850>>20, most.Load())
	}
	testkit.Must(t, db.Compact(ctx, stoat.CompactOptions{}))
	for from := 0; from < n; from += 1000 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := from; i < from+1000; i += 20 {
				if err := tx.Delete(key(i)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	testkit.Must(t, db.Compact(ctx, stoat.CompactOptions{Lower: []byte("key"), Upper: []byte("kez")}))
	s := db.Stats()
	most.Store(0)
	testkit.Must(t, db.Collect(ctx))
	if most.Load() > 100 {
		t.Errorf("Collect of a database of %d tables opens %d files at once", s.Tables, most.Load())
	}
	testkit.Must(t, db.Close())
}

// A collection reads the indexes of all tables.
func TestDescriptors_ACollectionOfAnEncryptedDatabaseStaysWithinTheBudget(t *testing.T) {
	ctx := context.Background()
	const budget = 1 << 20
	var db atomic.Pointer[inside.DB]
	var most atomic.Int64
	fs := watchFiles(memfs.New(), func(int) {
		if db := db.Load(); db != nil {
			most.Store(max(most.Load(), db.Engine.Keys.Memory.Used()))
		}
	})
	opened, err := inside.Open(testkit.Dir, &stoat.Options{FS: fs, MemtableSize: 64 << 10, MemoryBudget: budget,
		Durability: stoat.Buffered, Keys: testkit.KeysIf(true)}, work.Executor{})
	testkit.Must(t, err)
	const n = 60_000
	key := func(i int) []byte {
		return append(fmt.Appendf(nil, "key-%06d-", i), bytes.Repeat([]byte{byte(i)}, 240)...)
	}
	_, err = opened.Ingest(ctx, func(yield func(k, v []byte) bool) {
		for i := range n {
			if !yield(key(i), bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 300)) {
				return
			}
		}
	}, stoat.IngestOptions{})
	testkit.Must(t, err)
	testkit.Must(t, opened.Compact(ctx, stoat.CompactOptions{}))
	for from := 0; from < n; from += 1000 {
		testkit.Must(t, opened.Update(func(tx stoat.Txn) error {
			for i := from; i < from+1000; i += 20 {
				if err := tx.Delete(key(i)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	testkit.Must(t, opened.Compact(ctx, stoat.CompactOptions{Lower: []byte("key"), Upper: []byte("kez")}))
	db.Store(opened)
	testkit.Must(t, opened.Collect(ctx))
	if used := most.Load(); used > budget || used == 0 {
		t.Errorf("decrypted pages take %d bytes, with a budget of %d", used, budget)
	}
	testkit.Must(t, opened.Close())
}
