package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// ItemOf copies an item of the database into one of the model.
func ItemOf(it stoat.Item) (model.Item, error) {
	value, err := it.Value()
	if err != nil {
		return model.Item{}, err
	}
	if int64(len(value)) != it.ValueSize() {
		return model.Item{}, fmt.Errorf("key %q: ValueSize is %d, the value has %d bytes", it.Key(), it.ValueSize(), len(value))
	}
	return itemWith(it, string(value)), nil
}

// KeyOf is ItemOf for an item of an iterator over keys only. It has the length of the value
// in place of the value, as model.Item.KeyOnly has.
func KeyOf(it stoat.Item) (model.Item, error) {
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

// ScanAll reads everything that an iterator shows.
func ScanAll(tx stoat.Txn, o stoat.IterOptions) ([]model.Item, error) {
	var items []model.Item
	it := tx.Iterator(o)
	defer it.Close()
	for it.Next() {
		if !bytes.Equal(it.Value(), valueOf(it.Item())) {
			return items, fmt.Errorf("key %q: Iterator.Value and Item.Value differ", it.Key())
		}
		copied := ItemOf
		if o.KeysOnly {
			copied = KeyOf
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

// Compare demands that everything a transaction can read is the state of m at the
// transaction's version. It scans forwards, in reverse and over keys only. It reads each
// key that ever was by point reads, and all versions that must be kept.
func Compare(tx stoat.Txn, m *model.Map, nowMs uint64) error {
	want := m.Scan(tx.ReadVersion(), nowMs)
	for _, o := range []stoat.IterOptions{{}, {Reverse: true}, {KeysOnly: true}} {
		if err := CompareScan(tx, o, want); err != nil {
			return err
		}
	}
	if err := ComparePoints(tx, m, want); err != nil {
		return err
	}
	got, err := ScanAll(tx, stoat.IterOptions{AllVersions: true})
	if err != nil {
		return fmt.Errorf("scan of all versions: %w", err)
	}
	if d := m.Kept(got, tx.ReadVersion(), nowMs); d != "" {
		return fmt.Errorf("scan of all versions at %d: %s", tx.ReadVersion(), d)
	}
	return nil
}

// CompareScan demands that an iterator with these options shows want, in the order
// of its keys.
func CompareScan(tx stoat.Txn, o stoat.IterOptions, want []model.Item) error {
	got, err := ScanAll(tx, o)
	if err != nil {
		return fmt.Errorf("scan %+v: %w", o, err)
	}
	if o.Reverse {
		slices.Reverse(got)
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

// ComparePoints reads every key that the map ever had; want holds those that
// are there, in order.
func ComparePoints(tx stoat.Txn, m *model.Map, want []model.Item) error {
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
		got, err := ItemOf(item)
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

// OpenRecovered opens what a crash left and demands that it is the state after
// some commit, floor or later, and nothing else. It returns the database and
// that commit.
func OpenRecovered(opts stoat.Options, m *model.Map, nowMs, floor uint64) (*stoat.DB, uint64, error) {
	db, err := stoat.Open(Dir, &opts)
	if err != nil {
		return nil, 0, fmt.Errorf("open: %w", err)
	}
	var version uint64
	err = db.View(func(tx stoat.Txn) error {
		version = tx.ReadVersion()
		if version < floor {
			return fmt.Errorf("recovered commit %d, but %d was acknowledged as durable", version, floor)
		}
		if version > m.Last() {
			return fmt.Errorf("recovered commit %d, but there were only %d", version, m.Last())
		}
		return Compare(tx, m, nowMs)
	})
	if err != nil {
		return nil, 0, errors.Join(err, db.Close())
	}
	return db, version, nil
}
