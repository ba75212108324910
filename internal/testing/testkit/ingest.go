package testkit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/sorted"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Ingestible returns those of the writes that an ingest can make, in the order of their
// keys: values, and of equal keys the last one.
func Ingestible(writes []model.Write) (values []model.Write) {
	for _, w := range writes {
		if !w.Deleted && w.Steps == nil {
			values = append(values, w)
		}
	}
	slices.SortStableFunc(values, func(a, b model.Write) int { return cmp.Compare(a.Key, b.Key) })
	last := values[:0]
	for i, w := range values {
		if i+1 == len(values) || values[i+1].Key != w.Key {
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

// IngestFiles ingests writes that Ingestible has returned by files of sorted entries, up to
// four, and returns their version.
func IngestFiles(db *stoat.DB, ks *stoat.Keyspace, writes []model.Write) (uint64, error) {
	disk := memfs.New()
	var names []string
	for part := range slices.Chunk(writes, max(1, (len(writes)+3)/4)) {
		names = append([]string{fmt.Sprint("/file", len(names))}, names...)
		if err := WriteFile(disk, names[0], SortedFile(part, stoat.CompressionFast)); err != nil {
			return 0, err
		}
	}
	o := stoat.IngestOptions{Keyspace: ks, Options: []stoat.SetOption{stoat.ExpiresAt(time.Time{})}}
	done, err := sorted.Ingest(context.Background(), db, disk, names, o)
	return done.Version, err
}

// SortedFile returns a file of writes that Ingestible has returned.
func SortedFile(writes []model.Write, c stoat.Compression) []byte {
	var to bytes.Buffer
	w, err := sorted.NewWriter(&to, sorted.Options{Compression: c})
	for _, x := range writes {
		e := sorted.Entry{Key: []byte(x.Key), Value: []byte(x.Value), UserMeta: x.User}
		if x.ExpiresAt != 0 {
			e.ExpiresAt = time.UnixMilli(int64(x.ExpiresAt))
		}
		if err == nil {
			err = w.Add(e)
		}
	}
	if err == nil {
		err = w.Finish()
	}
	if err != nil {
		panic(err) // memory takes all writes
	}
	return to.Bytes()
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
