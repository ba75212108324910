package behaviour

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// readEverything opens a database and reads all of it, in every way. What it is
// told without an error must be what was written.
func readEverything(fs vfs.FS, want map[string]string) (err error) {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, o := range []stoat.IterOptions{{}, {Reverse: true}, {Prefetch: -1}} {
		if err := db.View(func(tx stoat.Txn) error { return scanEverything(tx, o, want) }); err != nil {
			return err
		}
	}
	return db.View(func(tx stoat.Txn) error {
		for key := range want {
			value, err := tx.Get([]byte(key))
			if err := isWritten(key, value, err, want); err != nil {
				return err
			}
			if has, err := tx.Has([]byte(key)); err != nil || !has {
				return cmp.Or(err, fmt.Errorf("%w: there is no %s", errWrong, key))
			}
		}
		return nil
	})
}

// scanEverything reads values through the iterator, and those of every second
// key through its item.
func scanEverything(tx stoat.Txn, o stoat.IterOptions, want map[string]string) error {
	it := tx.Iterator(o)
	defer it.Close()
	seen := 0
	for ; it.Next(); seen++ {
		key := string(it.Key())
		var value []byte
		var err error
		if seen%2 == 0 {
			value, err = it.Item().Value()
		} else {
			value, err = it.Value(), it.Err()
		}
		if err := isWritten(key, value, err, want); err != nil {
			return err
		}
	}
	if it.Err() == nil && seen != len(want) {
		return fmt.Errorf("%w: a scan without an error shows %d keys of %d", errWrong, seen, len(want))
	}
	return it.Err()
}

func isWritten(key string, value []byte, err error, want map[string]string) error {
	switch {
	case errors.Is(err, stoat.ErrNotFound):
		return fmt.Errorf("%w: %s is not found", errWrong, key)
	case err == nil && string(value) != want[key]:
		return fmt.Errorf("%w: %s has %d bytes, want %d, or others", errWrong, key, len(value), len(want[key]))
	}
	return err
}

var errWrong = errors.New("wrong answer")

// TestReadFaults_FailedReadIsNeverAnAnswer makes each call of an opening that only
// reads fail, once and from then on: nothing may be missing, empty or other than
// it was written without an error. A read that ends too early, as in a file that
// was cut, is one of the ways to fail.
func TestReadFaults_FailedReadIsNeverAnAnswer(t *testing.T) {
	t.Parallel()
	for _, how := range []stoat.Compression{stoat.CompressionNone, stoat.CompressionSmall}[:testkit.Raced(2, 1)] {
		t.Run(fmt.Sprint("compression ", how), func(t *testing.T) {
			t.Parallel()
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Compression = how })
			testkit.SetKeys(t, db, 0, 60, 100, 1)
			testkit.SetKeys(t, db, 60, 90, 3000, 2)
			testkit.SetKeys(t, db, 90, 92, 100_000, 3)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.SetKeys(t, db, 20, 40, 200, 4)
			testkit.Must(t, db.Sync())
			want := itemsOf(t, db)
			killed := disk.Clone()
			testkit.Must(t, db.Close())
			for name, rule := range map[string]faultfs.Rule{
				"EIO":                           {Err: vfs.ErrIO},
				"EIO after some bytes":          {Err: vfs.ErrIO, Partial: 24},
				"the end of the file":           {Err: io.EOF},
				"the end, after some bytes":     {Err: io.EOF, Partial: 24},
				"EMFILE":                        {Err: vfs.ErrTooManyFiles},
				"EACCES":                        {Err: vfs.ErrPermission},
				"EIO, although all was carried": {Err: vfs.ErrIO, Done: true},
			} {
				for _, rule.Forever = range []bool{false, true} {
					failed := failEachCall(t, name, rule, killed, want)
					t.Logf("%s, forever %v: %d calls", name, rule.Forever, failed)
				}
			}
		})
	}
}

// failEachCall returns how many calls there were to fail. With -short it tries each
// third of them.
func failEachCall(t *testing.T, name string, rule faultfs.Rule, disk *memfs.FS, want map[string]string) int {
	t.Helper()
	step := int64(1)
	if testing.Short() {
		step = 3
	}
	for rule.Nth = 1; ; rule.Nth += step {
		faults := faultfs.New(disk)
		fault := faults.Add(rule)
		err := readEverything(faults, want)
		n, op := faults.Failed()
		what := fmt.Sprintf("%s, call %d, %v, forever %v", name, rule.Nth, op, rule.Forever)
		switch {
		case errors.Is(err, errWrong):
			t.Errorf("%s: %v", what, err)
		case err == nil, rule.Err == io.EOF: // which also may mean that the file is too short
		case !errors.Is(err, faultfs.ErrInjected), !errors.Is(err, rule.Err):
			t.Errorf("%s: %v does not lead to its cause", what, err)
		}
		if fault.Fired() == 0 {
			return int(rule.Nth - 1)
		}
		if n == 0 {
			t.Fatalf("%s: nothing failed", what)
		}
	}
}
