package golden

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A goldenFilter drops each third key, and rewrites the next one.
type goldenFilter struct{}

func (goldenFilter) Name() string { return "golden filter" }

func (goldenFilter) Filter(key []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	var i int
	value, err := v.Bytes()
	if _, no := fmt.Sscanf(string(key), "key-%d", &i); no != nil || err != nil || bytes.HasPrefix(value, []byte("filtered")) {
		return stoat.FilterKeep, nil
	}
	switch i % 3 {
	case 0:
		return stoat.FilterDrop, nil
	case 1:
		return stoat.FilterRewrite, fmt.Appendf(nil, "filtered %d", i)
	}
	return stoat.FilterKeep, nil
}

// createFiltered leaves out the program of the filter. So the files have all values.
func createFiltered(o *stoat.Options) { o.Filter, o.Filters = goldenFilter{}.Name(), nil }

const filteredKeys = 30

// filteredValue is the value of key i before the filter sees it. Every second one lies
// apart.
func filteredValue(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "value %d, ", i), 1+80*(i%2)) }

// filterSpaces are the keyspaces. The last one has no filter.
var filterSpaces = []string{"", "filtered", "unfiltered"}

// writeFiltered writes half of the keys to tables, and half to the log.
func writeFiltered(t *testing.T, db *stoat.DB) {
	spaces := []*stoat.Keyspace{nil, nil, nil}
	for i, o := range []*stoat.KeyspaceOptions{1: {Filter: goldenFilter{}.Name()}, 2: nil} {
		if i > 0 {
			ks, err := db.Keyspace(filterSpaces[i], o)
			testkit.Must(t, err)
			spaces[i] = ks
		}
	}
	for half := range 2 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, ks := range spaces {
				for i := half; i < filteredKeys; i += 2 {
					if err := tx.In(ks).Set(testkit.Key(i), filteredValue(i), stoat.UserMeta(byte(i))); err != nil {
						return err
					}
				}
			}
			return nil
		}))
		if half == 0 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("~")})) // only a flush
		}
	}
}

// checkFiltered demands the stored names, and that DB.Compact has filtered. A flush may
// have filtered before.
func checkFiltered(t *testing.T, db *stoat.DB, compacted bool) {
	all, err := db.Keyspaces()
	testkit.Must(t, err)
	for i, k := range all {
		want := goldenFilter{}.Name()
		if i == 2 {
			want = ""
		}
		if k.Name != filterSpaces[i] || k.Settings.Filter != want {
			t.Errorf("keyspace %q has the filter %q, want %q with %q", k.Name, k.Settings.Filter, filterSpaces[i], want)
		}
		var ks *stoat.Keyspace
		if i > 0 {
			ks, err = db.Keyspace(k.Name, nil)
			testkit.Must(t, err)
		}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for i := range filteredKeys {
				if err := checkFilteredKey(tx.In(ks), i, want != "", compacted); err != nil {
					return fmt.Errorf("keyspace %q: %w", k.Name, err)
				}
			}
			return nil
		}))
	}
	if len(all) != len(filterSpaces) {
		t.Errorf("%d keyspaces, want %d", len(all), len(filterSpaces))
	}
}

// checkFilteredKey compares the value of key i. filters says that the keyspace has a filter.
func checkFilteredKey(tx stoat.Txn, i int, filters, compacted bool) error {
	var value []byte
	item, err := tx.GetItem(testkit.Key(i))
	if err == nil {
		value, err = item.Value()
	}
	if err != nil && !errors.Is(err, stoat.ErrNotFound) {
		return err
	}
	there := err == nil && item.UserMeta() == byte(i)
	before := there && bytes.Equal(value, filteredValue(i))
	after := before
	switch {
	case filters && i%3 == 0:
		after = err != nil
	case filters && i%3 == 1:
		after = there && string(value) == fmt.Sprintf("filtered %d", i)
	}
	if !after && (compacted || !before) {
		return fmt.Errorf("key %d is %.30q, %v", i, value, err)
	}
	return nil
}
