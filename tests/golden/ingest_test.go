package golden

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

const ingestedKeys = 200

// ingestedValue is the value of key i of the ingest. Each third key has its value apart.
func ingestedValue(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "ingested %d, ", i), 1+100*(i%3/2))
}

// writeIngests makes an ingest above older values, with newer ones above it.
func writeIngests(t *testing.T, db *stoat.DB) {
	testkit.SetKeys(t, db, 0, ingestedKeys/2, 10, 'a')
	_, err := db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
		for i := range ingestedKeys {
			if !yield(testkit.Key(i), ingestedValue(i)) {
				return
			}
		}
	}, stoat.IngestOptions{Options: []stoat.SetOption{stoat.UserMeta(9)}})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 10, 10, 'b')
}

func checkIngests(t *testing.T, db *stoat.DB, _ bool) {
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		version := uint64(0)
		for i := range ingestedKeys {
			item, err := tx.GetItem(testkit.Key(i))
			if err != nil {
				return err
			}
			want, user := ingestedValue(i), byte(9)
			if i < 10 {
				want, user = bytes.Repeat([]byte("b"), 10), 0
			} else if version == 0 {
				version = item.Version()
			}
			value, err := item.Value()
			if err != nil || !bytes.Equal(value, want) || item.UserMeta() != user || i >= 10 && item.Version() != version {
				t.Fatalf("key %d is %.30q of version %d, %v", i, value, item.Version(), err)
			}
		}
		if version == 0 || version >= tx.ReadVersion() {
			t.Errorf("the ingest has version %d, the newest is %d", version, tx.ReadVersion())
		}
		return nil
	}))
}
