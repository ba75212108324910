package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// What a caller may rely on: his bytes, the time he gave, the errors he gets.

// ways are the ways by which a value comes into the database. Each writes so
// much, and in such a manner, that it takes a path of its own.
var ways = []struct {
	name  string
	size  int
	write func(tx stoat.Txn, key, value []byte, opts ...stoat.SetOption) error
}{
	{"a short value", 20, (stoat.Txn).Set},
	{"a value kept apart from its key", 2000, (stoat.Txn).Set},
	{"a value written straight to a value file", 3 << 20, (stoat.Txn).Set},
	{"a value given as a reader", 5000, setReader},
	{"a value set twice", 300, func(tx stoat.Txn, key, value []byte, opts ...stoat.SetOption) error {
		return errors.Join(tx.Set(key, []byte("other"), stoat.TTL(time.Hour)), tx.Set(key, value, opts...))
	}},
	{"a value in a transaction larger than a memtable", 300, func(tx stoat.Txn, key, value []byte, opts ...stoat.SetOption) error {
		for i := range 2000 {
			if err := tx.Set(testkit.Key(i), make([]byte, 200)); err != nil {
				return err
			}
		}
		return tx.Set(key, value, opts...)
	}},
}

func setReader(tx stoat.Txn, key, value []byte, opts ...stoat.SetOption) error {
	return tx.SetReader(key, bytes.NewReader(value), opts...)
}

// A database that encrypts or compresses in place, or that holds on to what it
// was given, would show here.
func TestCallerBytes_AreNeitherChangedNorKept(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		for _, how := range []stoat.Compression{stoat.CompressionNone, stoat.CompressionSmall} {
			db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: 128 << 10, Compression: how})
			testkit.Must(t, err)
			key, value := []byte("key"), bytes.Repeat([]byte("value"), w.size/5)
			wantKey, want := bytes.Clone(key), bytes.Clone(value)
			same := func(when string) {
				if !bytes.Equal(key, wantKey) || !bytes.Equal(value, want) {
					t.Errorf("%s: the caller's bytes are changed by %s", w.name, when)
				}
			}
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			testkit.Must(t, w.write(tx, key, value))
			same("Set")
			testkit.Must(t, tx.Commit())
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			same("Commit, a flush or a merge")

			// And he may do with them what he likes at once.
			tx = testkit.Begin(t, db, stoat.ReadWrite)
			testkit.Must(t, w.write(tx, key, value))
			for _, b := range [][]byte{key, value} {
				for i := range b {
					b[i] = 'x'
				}
			}
			done := make(chan error, 1)
			tx.CommitAsync(func(_ uint64, err error) { done <- err })
			testkit.Must(t, <-done)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				got, err := tx.Get(wantKey)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: the value has %d bytes, want %d, or others: %v", w.name, len(got), len(want), err)
				}
				return nil
			}))
			testkit.Must(t, db.Close())
		}
	}
}

// The time at which a value expires is kept by whichever way it came, and
// wherever it is moved to.
func TestExpiry_EveryWayToWriteKeepsIt(t *testing.T) {
	t.Parallel()
	const life = 500 // milliseconds: less than a second
	for _, w := range ways {
		for _, m := range moves {
			if m.name == "checkpoint" {
				continue // it would open with another clock
			}
			r := newClockRun(t)
			value := bytes.Repeat([]byte("v"), w.size)
			testkit.Must(t, r.db.Update(func(tx stoat.Txn) error {
				return errors.Join(
					w.write(tx, []byte("by ttl"), value, stoat.TTL(life*time.Millisecond), stoat.UserMeta(3)),
					w.write(tx, []byte("by time"), value, stoat.ExpiresAt(time.UnixMilli(testkit.ClockStart+life)), stoat.UserMeta(3)))
			}))
			switch m.name {
			case "reopened":
				r.reopen()
			case "power cut":
				r.crash(func(disk *memfs.FS) *memfs.FS { return disk.Crash(memfs.KeepNone, nil) })
			default:
				m.move(t, r.opts.FS.(*memfs.FS), r.db)
			}
			what := fmt.Sprintf("%s, %s", w.name, m.name)
			testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
				for _, key := range []string{"by ttl", "by time"} {
					item, err := tx.GetItem([]byte(key))
					if err != nil || item.ExpiresAt().UnixMilli() != testkit.ClockStart+life || item.UserMeta() != 3 {
						t.Errorf("%s: %s expires at %v, has the byte %d, error %v", what, key, item.ExpiresAt(), item.UserMeta(), err)
					}
				}
				return nil
			}))
			r.at(life - 1)
			r.want("by ttl", true, what)
			r.want("by time", true, what)
			r.at(life)
			r.want("by ttl", false, what)
			r.want("by time", false, what)
			testkit.Must(t, r.db.Close())
		}
	}
}

// causes make each of the errors of the package, by as long a way as there is.
var causes = map[string]struct {
	want  error
	cause func(t *testing.T) error
}{
	"ErrNotFound": {stoat.ErrNotFound, func(t *testing.T) error {
		return testkit.OpenMem(t).View(func(tx stoat.Txn) error {
			_, err := tx.Get([]byte("k"))
			return fmt.Errorf("the caller's own: %w", err)
		})
	}},
	"ErrConflict": {stoat.ErrConflict, func(t *testing.T) error {
		db := testkit.OpenMem(t)
		return db.Update(func(tx stoat.Txn) error {
			_, err := tx.Has([]byte("k"))
			setKeys(t, db, "k")
			return errors.Join(err, tx.Set([]byte("k"), nil))
		})
	}},
	"ErrClosed": {stoat.ErrClosed, func(t *testing.T) error {
		db := testkit.OpenMem(t)
		testkit.Must(t, db.Close())
		return db.Compact(t.Context(), stoat.CompactOptions{})
	}},
	"ErrTxnDone": {stoat.ErrTxnDone, func(t *testing.T) error {
		db := testkit.OpenMem(t)
		return db.Update(func(tx stoat.Txn) error {
			tx.Discard()
			return tx.SetReader([]byte("k"), strings.NewReader("v"))
		})
	}},
	"ErrReadOnly": {stoat.ErrReadOnly, func(t *testing.T) error {
		db := testkit.OpenOn(t, testkit.NewSampleDisk(t), func(o *stoat.Options) { o.ReadOnly = true })
		return errors.Join(db.DropAll(t.Context()), db.Close())
	}},
	"ErrLocked": {stoat.ErrLocked, func(t *testing.T) error {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		testkit.Must(t, db.Close())
		return err
	}},
	"ErrNoSpace": {stoat.ErrNoSpace, func(t *testing.T) error {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		setKeys(t, db, "k")
		disk.SetCapacity(disk.UsedBytes())
		err := db.Update(func(tx stoat.Txn) error {
			return tx.SetReader([]byte("k"), io.LimitReader(&testkit.PatternReader{}, 8<<20))
		})
		testkit.Must(t, db.Close())
		return err
	}},
	"ErrCorrupt": {stoat.ErrCorrupt, func(t *testing.T) error {
		disk := testkit.NewSampleDisk(t)
		names, err := disk.List(testkit.Dir)
		testkit.Must(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".values") {
				f, err := disk.OpenReadWrite(disk.Join(testkit.Dir, name), vfs.CatValue)
				testkit.Must(t, err)
				size, err := f.Size()
				testkit.Must(t, err)
				_, err = f.WriteAt(make([]byte, size), 0)
				testkit.Must(t, errors.Join(err, f.Close()))
			}
		}
		db := testkit.OpenOn(t, disk, nil)
		err = db.View(func(tx stoat.Txn) error {
			for range tx.All() {
			}
			return tx.Err()
		})
		return errors.Join(err, db.Close())
	}},
	"ErrFailed": {stoat.ErrFailed, func(t *testing.T) error {
		faults := faultfs.New(memfs.New())
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
		testkit.Must(t, err)
		setKeys(t, db, "k")
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Path: "000001.log"})
		err = db.DropAll(t.Context())
		testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
		return err
	}},
	"ErrVersion": {stoat.ErrVersion, func(t *testing.T) error {
		disk := testkit.NewSampleDisk(t)
		names, err := disk.List(testkit.Dir)
		testkit.Must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "MANIFEST-") {
				raiseVersion(t, disk, disk.Join(testkit.Dir, name))
			}
		}
		_, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		return err
	}},
	"ErrStale":      {stoat.ErrStale, followAnother},
	"ErrInvalid":    {stoat.ErrInvalid, func(t *testing.T) error { return testkit.OpenMem(t).View(nil) }},
	"ErrNoKeyspace": {stoat.ErrNoKeyspace, func(t *testing.T) error { return testkit.OpenMem(t).DropKeyspace("unknown") }},
	"ErrTimestampDiscarded": {stoat.ErrTimestampDiscarded, func(t *testing.T) error {
		db := testkit.OpenMem(t)
		ks := timed(t, db)
		testkit.Must(t, ks.DiscardBelow(9))
		return db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(8).Delete([]byte("key")) })
	}},
	"ErrBatchTooLarge": {stoat.ErrBatchTooLarge, func(t *testing.T) error {
		b := testkit.OpenMem(t).NewBatch(stoat.BatchOptions{Size: 1})
		defer b.Discard()
		return b.Set([]byte("key"), []byte("value"))
	}},
	"ErrSnapshotExpired": {stoat.ErrSnapshotExpired, func(t *testing.T) error {
		s, err := testkit.OpenMem(t).Snapshot(stoat.SnapshotOptions{MaxAge: 1})
		testkit.Must(t, err)
		defer s.Close()
		for began := time.Now(); err == nil && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
			err = s.View(func(stoat.Txn) error { return nil })
		}
		return err
	}},
	"ErrEmptyKey": {stoat.ErrEmptyKey, func(t *testing.T) error {
		return testkit.OpenMem(t).Update(func(tx stoat.Txn) error { return tx.Set(nil, nil) })
	}},
	"ErrKeyTooLarge": {stoat.ErrKeyTooLarge, func(t *testing.T) error {
		return testkit.OpenMem(t).Update(func(tx stoat.Txn) error { return tx.Delete(make([]byte, stoat.MaxKeySize+1)) })
	}},
	"ErrValueTooLarge": {stoat.ErrValueTooLarge, nil}, // takes 4 GiB: make large
}

func TestErrors_IsFindsDeepCauses(t *testing.T) {
	t.Parallel()
	for name, c := range causes {
		if c.cause == nil {
			continue
		}
		if err := c.cause(t); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("mine"))
	testkit.WantError(t, "a context that was canceled", testkit.OpenMem(t).UpdateContext(ctx, func(stoat.Txn) error { return nil }), context.Canceled)

	// None is missing above.
	file, err := parser.ParseFile(token.NewFileSet(), "../../errors.go", nil, 0)
	testkit.Must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			if _, ok := causes[spec.Names[0].Name]; !ok {
				t.Errorf("nothing causes %s", spec.Names[0].Name)
			}
		}
		return true
	})
}

// The key that GetItem is given may be used for the next one at once.
func TestCallerBytes_ItemKeepsItsKeyWhenTheyChange(t *testing.T) {
	t.Parallel()
	fs, value := memfs.New(), bytes.Repeat([]byte("x"), 5000)
	db := testkit.OpenOn(t, fs, nil)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 300 {
			if err := tx.Set(testkit.Key(i), value); err != nil {
				return err
			}
		}
		return nil
	}))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		var items []stoat.Item
		key := make([]byte, 0, 64)
		for i := range 3 {
			key = append(key[:0], testkit.Key(i)...)
			item, err := tx.GetItem(key)
			testkit.Must(t, err)
			items = append(items, item)
		}
		clear(key)
		for i, item := range items {
			if !bytes.Equal(item.Key(), testkit.Key(i)) {
				t.Errorf("item %d has the key %q", i, item.Key())
			}
			if got, err := item.Value(); err != nil || !bytes.Equal(got, value) {
				t.Errorf("item %d has %d bytes, error %v", i, len(got), err)
			}
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}

// A caller that copies an item sets the expiry that the item shows, even when it is
// the zero time.
func TestExpiry_ShownExpiryCanBeSetAgain(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	key, again := []byte("key"), []byte("again")
	for _, o := range [][]stoat.SetOption{nil, {stoat.ExpiresAt(time.Now().Add(time.Hour))}} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(key, []byte("v"), o...) }))
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			item, err := tx.GetItem(key)
			testkit.Must(t, err)
			return tx.Set(again, []byte("v"), stoat.TTL(1), stoat.ExpiresAt(item.ExpiresAt()))
		}))
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			a, err := tx.GetItem(key)
			testkit.Must(t, err)
			b, err := tx.GetItem(again)
			testkit.Must(t, err)
			if !a.ExpiresAt().Equal(b.ExpiresAt()) || a.ExpiresAt().IsZero() != (o == nil) {
				t.Errorf("the copy expires at %v, the key at %v", b.ExpiresAt(), a.ExpiresAt())
			}
			return nil
		}))
	}
}
