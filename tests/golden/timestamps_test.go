package golden

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// goldenStampKeys are the keys of the golden database with timestamps.
var goldenStampKeys = []string{"\x00", "a", "a\x00", "a\x00\x01", "a\xff", "key", "\xff\x00"}

// goldenStampsBelow is its discard point.
const goldenStampsBelow = 30

func goldenStampValue(key string, at uint64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%q at %d ", key, at), 1+int(at%100))
}

// writeTimestamps writes versions at 10 to 60 in tables, and then late ones in the log.
// Each key is deleted at 50, and has no value from then on. At 60, a value has expired.
func writeTimestamps(t *testing.T, db *stoat.DB) {
	ks, err := db.Keyspace("stamps", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked, ValueThreshold: 300})
	testkit.Must(t, err)
	for _, times := range [][]uint64{{10, 40, 60}, {50, 30, 1 << 63}} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, key := range goldenStampKeys {
				for _, at := range times {
					in := tx.In(ks).At(at)
					switch at {
					case 50:
						testkit.Must(t, in.Delete([]byte(key)))
					case 60:
						testkit.Must(t, in.Set([]byte(key), goldenStampValue(key, at), stoat.ExpiresAt(time.UnixMilli(1))))
					default:
						testkit.Must(t, in.Set([]byte(key), goldenStampValue(key, at), stoat.UserMeta(byte(at))))
					}
				}
			}
			return nil
		}))
		if times[0] == 10 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
	}
	testkit.Must(t, ks.DiscardBelow(goldenStampsBelow))
}

func checkTimestamps(t *testing.T, db *stoat.DB, compacted bool) {
	ks, err := db.Keyspace("stamps", nil)
	testkit.Must(t, err)
	if got := ks.DiscardedBelow(); got != goldenStampsBelow {
		t.Errorf("the discard point is %d, want %d", got, goldenStampsBelow)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for at, want := range map[uint64]uint64{30: 30, 39: 30, 40: 40, 49: 40, 50: 0, 60: 0, 99: 0, 1 << 63: 1 << 63} {
			shown := 0
			for key, value := range tx.In(ks).At(at).All() {
				if want == 0 || string(key) != goldenStampKeys[shown] || !bytes.Equal(value, goldenStampValue(string(key), want)) {
					t.Errorf("at %d: key %q has %d bytes at place %d", at, key, len(value), shown)
				}
				shown++
			}
			if (want != 0) != (shown == len(goldenStampKeys)) || tx.Err() != nil {
				t.Errorf("at %d: %d keys, %v", at, shown, tx.Err())
			}
		}
		versions := 0
		it := tx.In(ks).At(1 << 63).Iterator(stoat.IterOptions{AllVersions: true})
		for it.Next() {
			versions++
		}
		want := 6 * len(goldenStampKeys)
		if compacted {
			want -= len(goldenStampKeys) // what is below the discard point
		}
		if versions != want {
			t.Errorf("compacted %v: %d versions, want %d", compacted, versions, want)
		}
		return it.Close()
	}))
}
