package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// calledWithNothing is what each exported method says to nil and zero for every
// argument. A nil context is one that is never done.
var calledWithNothing = map[string]map[string]error{
	"DB": {
		"Begin": stoat.ErrInvalid, "BeginContext": stoat.ErrInvalid,
		"View": stoat.ErrInvalid, "ViewContext": stoat.ErrInvalid,
		"Update": stoat.ErrInvalid, "UpdateContext": stoat.ErrInvalid,
		"Checkpoint": stoat.ErrInvalid, "Check": nil, "Collect": nil, "Compact": nil,
		"DropAll": nil, "DropPrefix": nil, "Format": nil, "Refresh": nil, "Settings": nil, "Stats": nil, "Subscribe": nil, "Sync": nil, "SyncContext": nil, "Close": nil,
		"NewBatch": nil, "NewBatchContext": nil, "Snapshot": nil, "EstimateRange": nil, "SplitRange": stoat.ErrInvalid,
		"Ingest": stoat.ErrInvalid, "IngestEntries": stoat.ErrInvalid, "BulkLoad": stoat.ErrInvalid,
		"Backup": stoat.ErrInvalid, "Stream": stoat.ErrInvalid,
		"RotateMasterKey": stoat.ErrKey,
		"Keyspace":        stoat.ErrInvalid, "Keyspaces": nil, "DropKeyspace": stoat.ErrNoKeyspace,
	},
	"Txn": {
		"Get": stoat.ErrEmptyKey, "GetCopy": stoat.ErrEmptyKey, "GetItem": stoat.ErrEmptyKey, "Has": stoat.ErrEmptyKey,
		"Set": stoat.ErrEmptyKey, "SetReader": stoat.ErrEmptyKey, "Delete": stoat.ErrEmptyKey, "DeleteRange": nil,
		"Merge": stoat.ErrEmptyKey, "Renew": stoat.ErrEmptyKey,
		"All": nil, "Prefix": nil, "Range": nil, "Loop": nil, "GetMany": nil, "Iterator": nil, "Err": nil, "In": nil, "At": nil,
		"ReadVersion": nil, "CommitVersion": nil, "Commit": nil, "CommitAsync": nil, "Discard": nil,
	},
	"Keyspace": {"Name": nil, "DropAll": nil, "DropPrefix": nil, "DiscardBelow": stoat.ErrInvalid, "DiscardedBelow": nil},
	"TimedTxn": {
		"Get": stoat.ErrEmptyKey, "GetCopy": stoat.ErrEmptyKey, "GetItem": stoat.ErrEmptyKey, "Has": stoat.ErrEmptyKey,
		"Set": stoat.ErrEmptyKey, "SetReader": stoat.ErrEmptyKey, "Delete": stoat.ErrEmptyKey, "PurgeRange": nil,
		"All": nil, "Prefix": nil, "Range": nil, "Loop": nil, "Iterator": nil, "Timestamp": nil,
	},
	"Batch": {
		"Set": stoat.ErrEmptyKey, "Delete": stoat.ErrEmptyKey, "DeleteRange": nil, "Merge": stoat.ErrEmptyKey,
		"Renew": stoat.ErrEmptyKey, "In": nil, "At": nil, "Commit": nil, "CommitVersion": nil, "Discard": nil,
	},
	"TimedBatch": {"Set": stoat.ErrEmptyKey, "Delete": stoat.ErrEmptyKey, "PurgeRange": nil},
	"Snapshot":   {"Begin": nil, "BeginContext": nil, "View": stoat.ErrInvalid, "ViewContext": stoat.ErrInvalid, "Version": nil, "Close": nil},
	"TimedIterator": {
		"First": nil, "Last": nil, "Seek": nil, "Next": nil, "Prev": nil, "Valid": nil, "Key": nil, "Value": nil, "Item": nil, "Err": nil, "Close": nil,
	},
	"Iterator": {
		"First": nil, "Last": nil, "Seek": nil, "Next": nil, "Prev": nil, "Valid": nil, "Key": nil, "Value": nil, "Item": nil, "Err": nil, "Close": nil,
	},
	"Item": {
		"Key": nil, "KeyCopy": nil, "Value": nil, "ValueCopy": nil, "ValueSize": nil, "Reader": nil,
		"Version": nil, "ExpiresAt": nil, "UserMeta": nil, "Deleted": nil, "Timestamp": nil,
	},
	"Stats": {"DiskBytes": nil, "WriteAmplification": nil}, "MemoryStats": {"Total": nil},
}

func TestInvalid_ZeroArgumentsAreErrorsAndNeverPanics(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }))
	for _, owner := range []struct {
		of  any
		new func() (of any, done func())
	}{
		{(*stoat.DB)(nil), func() (any, func()) {
			db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
			testkit.Must(t, err)
			return db, func() { testkit.Must(t, db.Close()) }
		}},
		{stoat.Txn{}, func() (any, func()) {
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			return tx, tx.Discard
		}},
		{(*stoat.Keyspace)(nil), func() (any, func()) {
			ks, err := db.Keyspace("one", nil)
			testkit.Must(t, err)
			return ks, func() {}
		}},
		{stoat.Iterator{}, func() (any, func()) {
			tx := testkit.Begin(t, db, stoat.ReadOnly)
			return tx.Iterator(stoat.IterOptions{}), tx.Discard
		}},
		{stoat.TimedTxn{}, func() (any, func()) {
			tx, ks := testkit.Begin(t, db, stoat.ReadWrite), timed(t, db)
			return tx.In(ks).At(5), tx.Discard
		}},
		{stoat.TimedIterator{}, func() (any, func()) {
			tx, ks := testkit.Begin(t, db, stoat.ReadOnly), timed(t, db)
			return tx.In(ks).At(5).Iterator(stoat.IterOptions{}), tx.Discard
		}},
		{stoat.Batch{}, func() (any, func()) {
			b := db.NewBatch(stoat.BatchOptions{})
			return b, b.Discard
		}},
		{(*stoat.Snapshot)(nil), func() (any, func()) {
			s := snapshot(t, db, stoat.SnapshotOptions{})
			return s, s.Close
		}},
		{stoat.TimedBatch{}, func() (any, func()) {
			b := db.NewBatch(stoat.BatchOptions{})
			return b.In(timed(t, db)).At(5), b.Discard
		}},
		{stoat.Item{}, func() (any, func()) { return stoat.Item{}, func() {} }},
		{stoat.Stats{}, func() (any, func()) { return stoat.Stats{}, func() {} }},
		{stoat.MemoryStats{}, func() (any, func()) { return stoat.MemoryStats{}, func() {} }},
	} {
		typ := reflect.TypeOf(owner.of)
		for m := range typ.NumMethod() {
			method := typ.Method(m).Name
			name := reflect.Indirect(reflect.New(typ)).Type().String() + "." + method
			bare := typ
			if typ.Kind() == reflect.Pointer {
				bare = typ.Elem()
			}
			want, known := calledWithNothing[bare.Name()][method]
			if !known {
				t.Errorf("%s: it is not in the table of this test", name)
				continue
			}
			of, done := owner.new()
			err := callWithNothing(reflect.ValueOf(of).Method(m))
			if want != nil {
				testkit.WantError(t, name, err, want)
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			done()
		}
	}
}

// callWithNothing calls a method with zero arguments and returns its error.
func callWithNothing(method reflect.Value) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		if in := method.Type().In(i); !method.Type().IsVariadic() || i < method.Type().NumIn()-1 {
			args = append(args, reflect.Zero(in))
		}
	}
	for _, out := range method.Call(args) {
		if e, ok := out.Interface().(error); ok {
			err = e
		}
	}
	return err
}

// A miscounting reader says that it has read so many bytes more than there is
// room for, or fewer than none, once it has given some.
type miscounting struct {
	given int
	wrong int
}

func (r *miscounting) Read(b []byte) (int, error) {
	if n := min(len(b), r.given); n > 0 {
		r.given -= n
		return n, nil
	}
	if r.wrong < 0 {
		return r.wrong, nil
	}
	return len(b) + r.wrong, nil
}

func TestInvalid_UnknownArgumentsAreErrInvalid(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	inUpdate := func(fn func(tx stoat.Txn) error) func() error {
		return func() error { return db.Update(fn) }
	}
	setReader := func(r io.Reader) func() error {
		return inUpdate(func(tx stoat.Txn) error { return tx.SetReader([]byte("k"), r) })
	}
	begun := func(mode stoat.Mode) func() error {
		return func() error { _, err := db.Begin(mode); return err }
	}
	opened := func(dir string, o stoat.Options) func() error {
		o.FS = memfs.New()
		return func() error { _, err := stoat.Open(dir, &o); return err }
	}
	for what, call := range map[string]func() error{
		"mode 0":        begun(0),
		"mode 3":        begun(3),
		"durability 77": func() error { return db.Update(setOne, stoat.WithDurability(77)) },
		"durability 77 of an async commit": func() error {
			tx, done := testkit.Begin(t, db, stoat.ReadWrite), make(chan error, 1)
			testkit.Must(t, setOne(tx))
			tx.CommitAsync(func(_ uint64, err error) { done <- err }, stoat.WithDurability(77))
			return <-done
		},
		"no reader":                         setReader(nil),
		"a reader of less than nothing":     setReader(&miscounting{0, -1}),
		"a reader of more than asked":       setReader(&miscounting{10, 1}),
		"a long value of less than nothing": setReader(&miscounting{3 << 20, -1}),
		"a long value of more than asked":   setReader(&miscounting{3 << 20, 1}),
		"bounds the wrong way round":        func() error { return db.Compact(t.Context(), inverted) },
		"an upper bound below all keys":     func() error { return db.Compact(t.Context(), stoat.CompactOptions{Upper: []byte{}}) },
		"a backup without a reader": func() error {
			_, err := stoat.VerifyBackup(t.Context(), nil)
			return err
		},
		"a restore without a reader": func() error {
			o := stoat.RestoreOptions{Options: &stoat.Options{FS: memfs.New()}}
			_, err := stoat.Restore(t.Context(), testkit.Dir, o, nil)
			return err
		},
		"a checkpoint without a name":     func() error { return db.Checkpoint(t.Context(), "") },
		"a database without a name":       opened("", stoat.Options{}),
		"Options.Durability":              opened(testkit.Dir, stoat.Options{Durability: 77}),
		"Options.MemoryBudget":            opened(testkit.Dir, stoat.Options{MemoryBudget: -1}),
		"Options.MemtableSize":            opened(testkit.Dir, stoat.Options{MemtableSize: 1}),
		"Options.ValueThreshold":          opened(testkit.Dir, stoat.Options{ValueThreshold: 1}),
		"Options.LargeValueThreshold":     opened(testkit.Dir, stoat.Options{LargeValueThreshold: 1}),
		"Options.Compression":             opened(testkit.Dir, stoat.Options{Compression: 77}),
		"Options.DataKeyAge":              opened(testkit.Dir, stoat.Options{DataKeyAge: time.Millisecond}),
		"Options.ChangeRetention":         opened(testkit.Dir, stoat.Options{ChangeRetention: 1<<46 + 1}),
		"Options.NumVersions":             opened(testkit.Dir, stoat.Options{NumVersions: -1}),
		"no function in an UpdateContext": func() error { return db.UpdateContext(t.Context(), nil) },
		"no function in a ViewContext":    func() error { return db.ViewContext(t.Context(), nil) },
		"no mode in a BeginContext":       func() error { _, err := db.BeginContext(t.Context(), 0); return err },
	} {
		testkit.WantError(t, what, callWithNothing(reflect.ValueOf(call)), stoat.ErrInvalid)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if ok, err := tx.Has([]byte("k")); ok || err != nil {
			t.Errorf("something of a refused call was committed, or an error: %v", err)
		}
		return nil
	}))
}

var inverted = stoat.CompactOptions{Lower: []byte("b"), Upper: []byte("a")}

func setOne(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) }

func TestInvalid_NilContextEndsNothingEarly(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	var none context.Context
	testkit.Must(t, db.UpdateContext(none, setOne))
	testkit.Must(t, db.ViewContext(none, func(tx stoat.Txn) error { _, err := tx.Get([]byte("k")); return err }))
	tx, err := db.BeginContext(none, stoat.ReadWrite)
	testkit.Must(t, err)
	testkit.Must(t, tx.Delete([]byte("k")))
	testkit.Must(t, tx.Commit())
	testkit.Must(t, db.Checkpoint(none, testkit.Dir+"-copy"))
	testkit.Must(t, db.DropPrefix(none, []byte("k")))
	testkit.Must(t, db.SyncContext(none))
	_, err = db.Stream(none, stoat.StreamOptions{}, func(*stoat.StreamBatch) error { return nil })
	testkit.Must(t, err)
}

func TestInvalid_NilContextEndsNoFunctionEarly(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, db.Update(setOne))
	var none context.Context
	var backup bytes.Buffer
	_, err := db.Backup(none, &backup, stoat.BackupOptions{})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	_, err = stoat.Repair(none, testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	_, err = stoat.VerifyBackup(none, bytes.NewReader(backup.Bytes()))
	testkit.Must(t, err)
	o := stoat.RestoreOptions{Options: &stoat.Options{FS: disk}}
	_, err = stoat.Restore(none, testkit.Dir+"-restored", o, bytes.NewReader(backup.Bytes()))
	testkit.Must(t, err)
	_, err = stoat.Salvage(none, testkit.Dir, testkit.Dir+"-salvaged", stoat.SalvageOptions{FS: disk})
	testkit.Must(t, err)
}

func TestInvalid_ZeroArgumentsOfFunctionsAreErrInvalid(t *testing.T) {
	t.Parallel()
	for name, function := range map[string]any{"Open": stoat.Open, "OpenFollower": stoat.OpenFollower, "Upgrade": stoat.Upgrade,
		"Repair": stoat.Repair, "Restore": stoat.Restore, "Salvage": stoat.Salvage, "VerifyBackup": stoat.VerifyBackup} {
		testkit.WantError(t, name, callWithNothing(reflect.ValueOf(function)), stoat.ErrInvalid)
	}
}
