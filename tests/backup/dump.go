package backup

import (
	"fmt"
	"math"

	"github.com/stoatdb/stoat"
)

// A dump is what a reader sees of a database: a line for each keyspace and each key.
type dump []string

// dumpOf returns what a transaction sees at a time, in milliseconds. What has expired by
// then counts as deleted: a merge may have dropped all of it but the deletion. Of a value,
// its length and its beginning count.
func dumpOf(db *stoat.DB, tx stoat.Txn, nowMs int64) (d dump, err error) {
	infos, err := db.Keyspaces()
	if err != nil {
		return nil, err
	}
	for i, info := range infos {
		d = append(d, fmt.Sprintf("keyspace %q %+v %d", info.Name, info.Settings, info.Timestamps))
		var ks *stoat.Keyspace
		if i > 0 {
			if ks, err = db.Keyspace(info.Name, nil); err != nil {
				return nil, err
			}
		}
		if info.Timestamps != 0 {
			err = d.add(tx.In(ks).At(math.MaxUint64).Iterator(stoat.IterOptions{AllVersions: true}), nowMs)
		} else {
			err = d.add(tx.In(ks).Iterator(stoat.IterOptions{}), nowMs)
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// A cursor is an iterator of either kind.
type cursor interface {
	Next() bool
	Item() stoat.Item
	Close() error
}

func (d *dump) add(it cursor, nowMs int64) error {
	for it.Next() {
		item := it.Item()
		value, err := item.Value()
		if err != nil {
			return err
		}
		if at := item.ExpiresAt(); item.Deleted() || !at.IsZero() && at.UnixMilli() <= nowMs {
			*d = append(*d, line(item.Key(), nil, item.Version(), item.Timestamp(), 0, 0, true))
			continue
		}
		*d = append(*d, line(item.Key(), value, item.Version(), item.Timestamp(), item.ExpiresAt().UnixMilli(), item.UserMeta(), item.Deleted()))
	}
	return it.Close()
}

func line(key, value []byte, version, timestamp uint64, expires int64, user byte, deleted bool) string {
	return fmt.Sprintf("%q %d@%d until %d user %d deleted %t: %d %.60q", key, version, timestamp, expires, user, deleted, len(value), value)
}

// diff returns an error that names the first difference.
func (d dump) diff(want dump) error {
	for i := range max(len(d), len(want)) {
		switch {
		case i >= len(d):
			return fmt.Errorf("line %d is missing: %s", i, want[i])
		case i >= len(want):
			return fmt.Errorf("line %d is too many: %s", i, d[i])
		case d[i] != want[i]:
			return fmt.Errorf("line %d is %s, want %s", i, d[i], want[i])
		}
	}
	return nil
}

// snapshotOf is dumpOf in a transaction of its own.
func snapshotOf(db *stoat.DB, nowMs int64) (d dump, err error) {
	err = db.View(func(tx stoat.Txn) error {
		d, err = dumpOf(db, tx, nowMs)
		return err
	})
	return d, err
}
