package golden

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// encryptionClock is the clock of the encrypted golden database while it is made. It
// moves, so that the database has two data keys.
var encryptionClock = testkit.NewClock()

// createEncrypted makes a database that merges, so that it has partial entries.
func createEncrypted(o *stoat.Options) {
	createMerging(o)
	o.Clock, o.DataKeyAge = encryptionClock, time.Hour
	encryptionClock.Ms.Store(goldenNow.UnixMilli() - (3 * time.Hour).Milliseconds())
}

const encryptedKeys = 20

// encryptedValue is the value of key i under the second data key. Every second one lies
// apart.
func encryptedValue(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d under the second data key ", i), 1+30*(i%2))
}

// writeEncrypted writes partial entries and timestamps with the first data key, and then
// plain values with the second one: half of them in tables, and half in the log.
func writeEncrypted(t *testing.T, db *stoat.DB) {
	writePartials(t, db)
	writeTimestamps(t, db)
	encryptionClock.Ms.Add((2 * time.Hour).Milliseconds())
	ks, err := db.Keyspace("second data key", &stoat.KeyspaceOptions{Compression: stoat.CompressionFast})
	testkit.Must(t, err)
	for half := range 2 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range encryptedKeys {
				if i/2%2 == half {
					testkit.Must(t, tx.In(ks).Set(testkit.Key(i), encryptedValue(i)))
				}
			}
			return nil
		}))
		if half == 0 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Keyspace: ks}))
		}
	}
}

func checkEncrypted(t *testing.T, db *stoat.DB, compacted bool) {
	checkPartials(t, db, compacted)
	checkTimestamps(t, db, true) // the last compaction came after the discard point
	ks, err := db.Keyspace("second data key", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		in, n := tx.In(ks), 0
		for key, value := range in.All() {
			if !bytes.Equal(key, testkit.Key(n)) || !bytes.Equal(value, encryptedValue(n)) {
				t.Errorf("place %d has key %q with %d bytes", n, key, len(value))
			}
			n++
		}
		if n != encryptedKeys {
			t.Errorf("%d keys, want %d", n, encryptedKeys)
		}
		return in.Err()
	}))
}

func TestGolden_TheEncryptedDatabaseHasTwoDataKeysAndNoPlainText(t *testing.T) {
	t.Parallel()
	disk := readGolden(t, "testdata/encryption.zip")
	for _, dir := range []string{"/closed", "/killed"} {
		for name, content := range testkit.FilesOf(t, disk, dir) {
			if name == "KEYS" && binary.LittleEndian.Uint32([]byte(content)[48:]) != 2 {
				t.Errorf("%s/%s: %d data keys, want 2", dir, name, content[48])
			}
			for _, text := range []string{"second data key", "long long", "key-0000"} {
				if bytes.Contains([]byte(content), []byte(text)) {
					t.Errorf("%s/%s has the plain text %q", dir, name, text)
				}
			}
		}
	}
}
