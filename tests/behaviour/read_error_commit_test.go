package behaviour

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// No commit may follow from an incomplete loop, also if the iterator has moved on.
func TestReadError_AnotherPositionOfTheIteratorDoesNotForgetIt(t *testing.T) {
	t.Parallel()
	const keys = 2000
	for name, again := range map[string]func(it stoat.Iterator) bool{
		"Close":     func(stoat.Iterator) bool { return true },
		"Seek":      func(it stoat.Iterator) bool { return it.Seek(testkit.Key(keys - 1)) },
		"Last":      stoat.Iterator.Last,
		"First":     stoat.Iterator.First,
		"Seek, end": func(it stoat.Iterator) bool { return !it.Seek([]byte("zzz")) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			testkit.SetKeys(t, db, 0, keys, 100, 1)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.Must(t, db.Close())
			spoilTableWith(t, disk, "")
			db = testkit.OpenOn(t, disk, nil)
			defer func() { _ = db.Close() }()
			err := db.Update(func(tx stoat.Txn) error {
				it := tx.Iterator(stoat.IterOptions{})
				defer it.Close()
				seen := 0
				for it.Next() {
					seen++
				}
				if seen == keys {
					t.Fatal("no read failed")
				}
				if !again(it) {
					t.Fatal("the second positioning failed")
				}
				return tx.Set([]byte("\x00marker"), fmt.Append(nil, seen))
			})
			if !errors.Is(err, stoat.ErrCorrupt) {
				t.Errorf("Update returned %v, want ErrCorrupt", err)
			}
		})
	}
}

func TestReadError_OfAnItemFailsTheCommit(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(i stoat.Item) error{
		"Value":  func(i stoat.Item) error { _, err := i.Value(); return err },
		"Reader": func(i stoat.Item) error { _, err := i.Reader(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			testkit.SetKeys(t, db, 0, 100, 5000, 1)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.Must(t, db.Close())
			for file, content := range testkit.FilesOf(t, disk, testkit.Dir) {
				if strings.HasSuffix(file, ".values") {
					spoiled := []byte(content)
					for i := 4096; i < len(spoiled)-4096; i += 1000 {
						spoiled[i] ^= 1
					}
					path := disk.Join(testkit.Dir, file)
					testkit.Must(t, disk.Remove(path))
					testkit.Must(t, testkit.WriteFile(disk, path, spoiled))
				}
			}
			db = testkit.OpenOn(t, disk, nil)
			defer func() { _ = db.Close() }()
			err := db.Update(func(tx stoat.Txn) error {
				item, err := tx.GetItem(testkit.Key(50))
				testkit.Must(t, err)
				if err := read(item); !errors.Is(err, stoat.ErrCorrupt) {
					t.Fatalf("the read returned %v", err)
				}
				return tx.Set([]byte("marker"), nil)
			})
			if !errors.Is(err, stoat.ErrCorrupt) {
				t.Errorf("Update returned %v, want ErrCorrupt", err)
			}
		})
	}
}

// A backward iterator finds the versions of a key by another read, which fails here.
func TestReadError_OfATimedIteratorIsNoEntry(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	open := func() *stoat.DB {
		return testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 8 << 20 })
	}
	db := open()
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 3 {
			if err := tx.In(ks).At(1).Set(fmt.Appendf(nil, "a%d", i), []byte("v")); err != nil {
				return err
			}
		}
		for at := range uint64(8000) {
			if err := tx.In(ks).At(at+1).Set([]byte("k"), []byte(testkit.LongValue(int(at)))); err != nil {
				return err
			}
		}
		return nil
	}))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if _, ok := base.ParseTableName(name); !ok {
			continue
		}
		path := testkit.Dir + "/" + name
		b, err := testkit.ReadFile(disk, path)
		testkit.Must(t, err)
		for i := len(b) * 4 / 10; i < len(b)*6/10; i++ {
			b[i] ^= 0x55
		}
		testkit.Must(t, testkit.WriteFile(disk, path, b))
	}
	db = open()
	defer db.Close()
	ks, err = db.Keyspace("timed", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.In(ks).At(4000).Iterator(stoat.IterOptions{Reverse: true})
		for n := 0; it.Next(); n++ {
			if it.Key() == nil {
				t.Errorf("entry %d has no key; Valid %v, Err %v", n, it.Valid(), it.Err())
			} else {
			}
		}
		return nil
	}))
}
