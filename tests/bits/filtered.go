package bits

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A byteFilter decides by the user's byte: 0 keeps a value, 1 drops it, 2 rewrites it.
type byteFilter struct{}

// Name implements stoat.Filter.
func (byteFilter) Name() string { return "byte" }

// Filter implements stoat.Filter.
func (byteFilter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	switch v.UserMeta() {
	case 1:
		return stoat.FilterDrop, nil
	case 2:
		if old, err := v.Bytes(); err == nil {
			return stoat.FilterRewrite, bytes.ReplaceAll(old, []byte("new"), []byte("bye"))
		}
	}
	return stoat.FilterKeep, nil
}

const (
	filteredName = "filtered"
	filteredKeys = 30
)

// filteredValue returns a value of a key. Half of them lie in value files.
func filteredValue(i int, state string) []byte {
	return bytes.Repeat([]byte(state), 3+i%2*400)
}

// newFilteredImage returns an image of a keyspace whose filter has seen each value. Later
// transactions renewed values. A compaction merged some of the renewals.
func newFilteredImage(t *testing.T) *Image {
	t.Helper()
	disk := memfs.New()
	opts := testkit.Merging(stoat.Options{FS: disk, Clock: testkit.NewClock(), MemtableSize: testkit.SmallMemtable, Filters: []stoat.Filter{byteFilter{}}})
	var db *stoat.DB
	var ks *stoat.Keyspace
	open := func() {
		t.Helper()
		var err error
		db, err = stoat.Open(testkit.Dir, &opts)
		testkit.Must(t, err)
		ks, err = db.Keyspace(filteredName, &stoat.KeyspaceOptions{Filter: "byte", ValueThreshold: 1000})
		testkit.Must(t, err)
	}
	img := &Image{name: "filtered and renewed"}
	renewed := map[uint64]time.Time{} // by version
	commit := func(end time.Time, write func(tx stoat.Txn, i int) error) {
		t.Helper()
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return testkit.Times(filteredKeys, func(i int) error { return write(tx.In(ks), i) })
		}))
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			img.last = tx.ReadVersion()
			return nil
		}))
		renewed[img.last] = end
	}
	renew := func(years int) {
		t.Helper()
		end := time.UnixMilli(testkit.ClockStart).AddDate(years, 0, 0)
		commit(end, func(tx stoat.Txn, i int) error { return tx.Renew(testkit.Key(i), stoat.ExpiresAt(end)) })
	}
	open()
	commit(time.Time{}, func(tx stoat.Txn, i int) error {
		return tx.Set(testkit.Key(i), filteredValue(i, "new"), stoat.UserMeta(byte(i%3)))
	})
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	img.older = append(img.older, disk.Clone())
	open()
	renew(1)
	img.older = append(img.older, disk.Clone())
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // merges
	renew(2)
	testkit.Must(t, db.Close())
	img.disk = disk.Clone()
	img.compare = func(db *stoat.DB, tx stoat.Txn) []error {
		ks, err := db.Keyspace(filteredName, nil)
		if err != nil {
			return []error{err}
		}
		end, ok := renewed[tx.ReadVersion()]
		if !ok {
			return []error{fmt.Errorf("there was no commit %d", tx.ReadVersion())}
		}
		var errs []error
		for i := range filteredKeys {
			errs = append(errs, compareFiltered(tx.In(ks), i, end))
		}
		return errs
	}
	testkit.Must(t, img.try(damage{name: "none", do: func(*memfs.FS) error { return nil }}, &outcomes{}))
	img.survey(t)
	return img
}

// compareFiltered demands what the filter made of a key, with the expiry time end.
func compareFiltered(tx stoat.Txn, i int, end time.Time) error {
	item, err := tx.GetItem(testkit.Key(i))
	if i%3 == 1 && errors.Is(err, stoat.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("key %d: %w", i, err)
	}
	got, err := tx.Get(testkit.Key(i))
	if err != nil {
		return fmt.Errorf("key %d: %w", i, err)
	}
	want := filteredValue(i, []string{"new", "", "bye"}[i%3])
	if i%3 == 1 || !bytes.Equal(got, want) || !item.ExpiresAt().Equal(end) || item.UserMeta() != byte(i%3) {
		return fmt.Errorf("key %d has %.20q, byte %d, until %v, want %.20q until %v", i, got, item.UserMeta(), item.ExpiresAt(), want, end)
	}
	return nil
}
