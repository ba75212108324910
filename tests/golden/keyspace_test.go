package golden

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// goldenSpaces are the keyspaces with keys of the golden database, by the time of their
// creation. The last one has a number that takes more bytes.
var goldenSpaces = []string{"", "first", "ein anderer Schlüsselraum", "last"}

// goldenSpaceOptions are the settings of all of them but the default keyspace.
var goldenSpaceOptions = stoat.KeyspaceOptions{NumVersions: 2, Compression: stoat.CompressionFast, ValueThreshold: 300,
	DefaultTTL: 1_000_000 * time.Hour}

// goldenSpaceKeys are their keys.
var goldenSpaceKeys = []string{"\x00", "a", "key", "\xfe\xff", "\xff", "\xff\x00", "\xff\x01", "\xff\xf1\x00", "\xff\xff\xff"}

// goldenSpaceValue is the value of a key. Every second one lies apart.
func goldenSpaceValue(name string, i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%q %d ", name, i), 5+50*(i%2))
}

// writeKeyspaces writes to all keyspaces in tables and in the log. One keyspace was
// dropped and made anew, and one is dropped at the end.
func writeKeyspaces(t *testing.T, db *stoat.DB) {
	for i := range 250 {
		switch i {
		case 0:
			goldenSpace(t, db, goldenSpaces[1])
		case 1:
			goldenSpace(t, db, goldenSpaces[2])
		case 249:
			goldenSpace(t, db, goldenSpaces[3])
		default:
			_, err := db.Keyspace(fmt.Sprint("empty ", i), nil)
			testkit.Must(t, err)
		}
	}
	gone, err := db.Keyspace("gone", nil)
	testkit.Must(t, err)
	for _, half := range []int{0, 1} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, name := range goldenSpaces {
				in := tx.In(goldenSpace(t, db, name))
				for i := half; i < len(goldenSpaceKeys); i += 2 {
					testkit.Must(t, in.Set([]byte(goldenSpaceKeys[i]), goldenSpaceValue(name, i)))
				}
			}
			return tx.In(gone).Set([]byte("k"), []byte("v"))
		}))
		if half == 0 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
	}
	testkit.Must(t, db.DropKeyspace("gone"))
}

// goldenSpace opens or creates a keyspace.
func goldenSpace(t *testing.T, db *stoat.DB, name string) *stoat.Keyspace {
	t.Helper()
	if name == "" {
		return nil
	}
	all, err := db.Keyspaces()
	testkit.Must(t, err)
	options := &goldenSpaceOptions
	for _, k := range all {
		if k.Name == name {
			options = nil
		}
	}
	ks, err := db.Keyspace(name, options)
	testkit.Must(t, err)
	return ks
}

func checkKeyspaces(t *testing.T, db *stoat.DB, _ bool) {
	all, err := db.Keyspaces()
	testkit.Must(t, err)
	if len(all) != 251 {
		t.Errorf("%d keyspaces, want 251", len(all))
	}
	want := stoat.Settings{NumVersions: 2, Compression: stoat.CompressionFast, ValueThreshold: 300,
		LargeValueThreshold: 4096, DefaultTTL: 1_000_000 * time.Hour}
	for _, k := range all {
		if (k.Name == "first" || k.Name == "last") && k.Settings != want {
			t.Errorf("keyspace %q has the settings %+v, want %+v", k.Name, k.Settings, want)
		}
		if k.Name == "gone" {
			t.Error("the dropped keyspace is there")
		}
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for _, name := range goldenSpaces {
			in := tx.In(goldenSpace(t, db, name))
			n := 0
			for key, value := range in.All() {
				if n >= len(goldenSpaceKeys) || string(key) != goldenSpaceKeys[n] || !bytes.Equal(value, goldenSpaceValue(name, n)) {
					return fmt.Errorf("keyspace %q has the key %q with %d bytes at place %d", name, key, len(value), n)
				}
				n++
			}
			if n != len(goldenSpaceKeys) || in.Err() != nil {
				return errors.Join(fmt.Errorf("keyspace %q has %d keys, want %d", name, n, len(goldenSpaceKeys)), in.Err())
			}
			item, err := in.GetItem([]byte("key"))
			if err != nil || item.ExpiresAt().IsZero() != (name == "") {
				return fmt.Errorf("keyspace %q: the key expires at %v, %w", name, item.ExpiresAt(), err)
			}
		}
		return nil
	}))
}
