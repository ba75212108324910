package kill

import (
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// compareLasting compares a keyspace with the model. Compactions may have dropped
// versions that no snapshot needs. So of older versions it demands only that they are
// true.
func compareLasting(tx stoat.Txn, m *model.Map, nowMs uint64) error {
	want := m.Scan(tx.ReadVersion(), nowMs)
	for _, o := range []stoat.IterOptions{{}, {Reverse: true}} {
		if err := testkit.CompareScan(tx, o, want); err != nil {
			return err
		}
	}
	if err := compareKeys(tx, want); err != nil {
		return err
	}
	if err := testkit.ComparePoints(tx, m, want); err != nil {
		return err
	}
	return compareVersions(tx, m, nowMs)
}

// compareKeys demands that an iterator over keys only shows those of want.
func compareKeys(tx stoat.Txn, want []model.Item) error {
	it := tx.Iterator(stoat.IterOptions{KeysOnly: true})
	defer it.Close()
	shown := 0
	for ; it.Next(); shown++ {
		if shown == len(want) {
			return fmt.Errorf("keys at %d: %q comes after the last", tx.ReadVersion(), it.Key())
		}
		if w := want[shown]; string(it.Key()) != w.Key || it.Item().Version() != w.Seq {
			return fmt.Errorf("keys at %d: got %q#%d, want %v", tx.ReadVersion(), it.Key(), it.Item().Version(), w)
		}
	}
	if it.Err() == nil && shown < len(want) {
		return fmt.Errorf("keys at %d: %v and what follows is missing", tx.ReadVersion(), want[shown])
	}
	return it.Err()
}

// compareVersions demands that every version that is still shown was written as it is
// shown. A version whose time is over may be a deletion by now.
func compareVersions(tx stoat.Txn, m *model.Map, nowMs uint64) error {
	type name struct {
		key string
		seq uint64
	}
	written := make(map[name]model.Item)
	for _, it := range m.AllVersions(0, tx.ReadVersion()) {
		written[name{it.Key, it.Seq}] = it
	}
	got, err := testkit.ScanAll(tx, stoat.IterOptions{AllVersions: true})
	if err != nil {
		return fmt.Errorf("scan of all versions: %w", err)
	}
	for _, it := range got {
		want, ok := written[name{it.Key, it.Seq}]
		over := ok && it.Deleted && !want.Live(nowMs)
		if !over && (!ok || it != want) {
			return fmt.Errorf("scan of all versions at %d: got %v, want %v", tx.ReadVersion(), it, want)
		}
	}
	return nil
}
