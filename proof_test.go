package stoat_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing/iotest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// What the harnesses share: a clock that tests turn, and the comparison of a
// whole database with the model.

// dbDir is where the databases of the tests lie on their memory disks.
const dbDir = "/db"

// A testClock is a clock that stands still until a test turns it.
type testClock struct {
	ms    atomic.Int64
	calls atomic.Int64
	high  atomic.Int64 // the highest time that was asked for
}

// clockStart is a moment in 2026.
const clockStart = 1_790_000_000_000

func newTestClock() *testClock {
	c := new(testClock)
	c.ms.Store(clockStart)
	return c
}

func (c *testClock) Now() time.Time {
	c.calls.Add(1)
	ms := c.ms.Load()
	for {
		high := c.high.Load()
		if ms <= high || c.high.CompareAndSwap(high, ms) {
			return time.UnixMilli(ms)
		}
	}
}

// seen is the time by which a database judges expiry that asks now: the
// highest this clock has shown, or shows.
func (c *testClock) seen() uint64 { return uint64(max(c.ms.Load(), c.high.Load())) }

// itemOf copies an item of the database into one of the model.
func itemOf(it stoat.Item) (model.Item, error) {
	value, err := it.Value()
	if err != nil {
		return model.Item{}, err
	}
	if int64(len(value)) != it.ValueSize() {
		return model.Item{}, fmt.Errorf("key %q: ValueSize is %d, the value has %d bytes", it.Key(), it.ValueSize(), len(value))
	}
	return itemWith(it, string(value)), nil
}

// keyOf is itemOf for an item of an iterator over keys only: it has the length
// of the value in place of the value, as model.Item.KeyOnly has.
func keyOf(it stoat.Item) (model.Item, error) {
	if value, err := it.Value(); value != nil || err != nil {
		return model.Item{}, fmt.Errorf("key %q: an iterator over keys only shows the value %.40q, error %v", it.Key(), value, err)
	}
	return itemWith(it, fmt.Sprintf("%d bytes", it.ValueSize())), nil
}

func itemWith(it stoat.Item, value string) model.Item {
	m := model.Item{Key: string(it.Key())}
	m.Seq, m.Value, m.Deleted, m.User = it.Version(), value, it.Deleted(), it.UserMeta()
	if t := it.ExpiresAt(); !t.IsZero() {
		m.ExpiresAt = uint64(t.UnixMilli())
	}
	return m
}

// put does to a transaction what w says.
func put(tx *stoat.Txn, w model.Write) error { return putAs(nil, tx, w) }

// A readerShape says how a reader gives what another one has.
type readerShape func(io.Reader) io.Reader

var readerShapes = []readerShape{
	func(r io.Reader) io.Reader { return r },
	iotest.HalfReader,
	iotest.DataErrReader,
}

// putAs is put of a value that is given as a reader, unless that is nil.
func putAs(reader readerShape, tx *stoat.Txn, w model.Write) error {
	if w.Deleted {
		return tx.Delete([]byte(w.Key))
	}
	var opts []stoat.SetOption
	if w.User != 0 {
		opts = append(opts, stoat.UserMeta(w.User))
	}
	if w.ExpiresAt != 0 {
		opts = append(opts, stoat.ExpiresAt(time.UnixMilli(int64(w.ExpiresAt))))
	}
	key, value := []byte(w.Key), []byte(w.Value)
	var err error
	if reader != nil {
		err = tx.SetReader(key, reader(bytes.NewReader(value)), opts...)
	} else {
		err = tx.Set(key, value, opts...)
	}
	// The caller may do with its bytes what it likes.
	clear(key)
	clear(value)
	return err
}

// fill does all of writes.
func fill(tx *stoat.Txn, writes []model.Write) error {
	for _, w := range writes {
		if err := put(tx, w); err != nil {
			return err
		}
	}
	return nil
}

// collect reads everything that an iterator shows.
func collect(tx *stoat.Txn, o stoat.IterOptions) ([]model.Item, error) {
	var items []model.Item
	it := tx.Iterator(o)
	defer it.Close()
	for it.Next() {
		if !bytes.Equal(it.Value(), valueOf(it.Item())) {
			return items, fmt.Errorf("key %q: Iterator.Value and Item.Value differ", it.Key())
		}
		copied := itemOf
		if o.KeysOnly {
			copied = keyOf
		}
		item, err := copied(it.Item())
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, it.Err()
}

func valueOf(it stoat.Item) []byte {
	v, err := it.Value()
	if err != nil {
		return []byte(err.Error())
	}
	return v
}

// compare demands that everything a transaction can read is the state of m at
// the transaction's version: scan, reverse scan, keys, each key that ever was
// by point reads, and those of all versions that must be kept.
func compare(tx *stoat.Txn, m *model.Map, nowMs uint64) error {
	want := m.Scan(tx.ReadVersion(), nowMs)
	for _, o := range []stoat.IterOptions{{}, {Reverse: true}, {KeysOnly: true}} {
		if err := compareScan(tx, o, want); err != nil {
			return err
		}
	}
	if err := comparePoints(tx, m, want); err != nil {
		return err
	}
	got, err := collect(tx, stoat.IterOptions{AllVersions: true})
	if err != nil {
		return fmt.Errorf("scan of all versions: %w", err)
	}
	if d := m.Kept(got, tx.ReadVersion(), nowMs); d != "" {
		return fmt.Errorf("scan of all versions at %d: %s", tx.ReadVersion(), d)
	}
	return nil
}

func compareScan(tx *stoat.Txn, o stoat.IterOptions, want []model.Item) error {
	got, err := collect(tx, o)
	if err != nil {
		return fmt.Errorf("scan %+v: %w", o, err)
	}
	if o.Reverse {
		for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
			got[i], got[j] = got[j], got[i]
		}
	}
	if o.KeysOnly {
		keys := make([]model.Item, len(want))
		for i, item := range want {
			keys[i] = item.KeyOnly()
		}
		want = keys
	}
	if d := model.Diff(got, want); d != "" {
		return fmt.Errorf("scan %+v at %d: %s", o, tx.ReadVersion(), d)
	}
	return nil
}

// comparePoints reads every key that the map ever had; want holds those that
// are there, in order.
func comparePoints(tx *stoat.Txn, m *model.Map, want []model.Item) error {
	for _, key := range m.Keys() {
		item, err := tx.GetItem([]byte(key))
		if errors.Is(err, stoat.ErrNotFound) {
			if len(want) > 0 && want[0].Key == key {
				return fmt.Errorf("get %q: not found, want %v", key, want[0])
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("get %q: %w", key, err)
		}
		got, err := itemOf(item)
		if err != nil {
			return err
		}
		if len(want) == 0 || got != want[0] {
			return fmt.Errorf("get %q at %d: got %v, want %v", key, tx.ReadVersion(), got, want[:min(1, len(want))])
		}
		want = want[1:]
	}
	return nil
}

// recovered opens what a crash left and demands that it is the state after
// some commit, floor or later, and nothing else. It returns the database and
// that commit.
func recovered(opts stoat.Options, m *model.Map, nowMs, floor uint64) (*stoat.DB, uint64, error) {
	db, err := stoat.Open(dbDir, &opts)
	if err != nil {
		return nil, 0, fmt.Errorf("open: %w", err)
	}
	var version uint64
	err = db.View(func(tx *stoat.Txn) error {
		version = tx.ReadVersion()
		if version < floor {
			return fmt.Errorf("recovered commit %d, but %d was acknowledged as durable", version, floor)
		}
		if version > m.Last() {
			return fmt.Errorf("recovered commit %d, but there were only %d", version, m.Last())
		}
		return compare(tx, m, nowMs)
	})
	if err != nil {
		return nil, 0, errors.Join(err, db.Close())
	}
	return db, version, nil
}

// first keeps the first error of many goroutines.
type first struct {
	once sync.Once
	err  atomic.Pointer[error]
}

func (f *first) set(err error) {
	if err != nil {
		f.once.Do(func() { f.err.Store(&err) })
	}
}

func (f *first) get() error {
	if p := f.err.Load(); p != nil {
		return *p
	}
	return nil
}
