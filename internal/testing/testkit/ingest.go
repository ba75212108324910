package testkit

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// Ingestible returns those of the writes that an ingest can make, in the order of their
// keys: values, and of equal keys the last one.
func Ingestible(writes []model.Write) (sorted []model.Write) {
	for _, w := range writes {
		if !w.Deleted && w.Steps == nil {
			sorted = append(sorted, w)
		}
	}
	slices.SortStableFunc(sorted, func(a, b model.Write) int { return cmp.Compare(a.Key, b.Key) })
	last := sorted[:0]
	for i, w := range sorted {
		if i+1 == len(sorted) || sorted[i+1].Key != w.Key {
			last = append(last, w)
		}
	}
	return last
}

// EntryOf returns the entry that writes w.
func EntryOf(w model.Write) stoat.Entry {
	at := time.Time{} // never, whatever the default of the keyspace
	if w.ExpiresAt != 0 {
		at = time.UnixMilli(int64(w.ExpiresAt))
	}
	return stoat.Entry{Key: []byte(w.Key), Value: []byte(w.Value), Options: []stoat.SetOption{stoat.ExpiresAt(at), stoat.UserMeta(w.User)}}
}

// BulkLoad loads writes in their order, and returns their version. It has memory for few of
// them.
func BulkLoad(db *stoat.DB, ks *stoat.Keyspace, writes []model.Write) (uint64, error) {
	done, err := db.BulkLoad(context.Background(), entriesOf(writes), stoat.IngestOptions{Keyspace: ks, Memory: 4 << 10})
	return done.Version, err
}

// Ingest ingests writes that Ingestible has returned, and returns their version.
func Ingest(db *stoat.DB, ks *stoat.Keyspace, writes []model.Write) (uint64, error) {
	done, err := db.IngestEntries(context.Background(), entriesOf(writes), stoat.IngestOptions{Keyspace: ks})
	return done.Version, err
}

// entriesOf yields the entries that write writes.
func entriesOf(writes []model.Write) iter.Seq2[stoat.Entry, error] {
	return func(yield func(stoat.Entry, error) bool) {
		for _, w := range writes {
			if !yield(EntryOf(w), nil) {
				return
			}
		}
	}
}
