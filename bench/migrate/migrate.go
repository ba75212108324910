// Package migrate copies databases of Badger, bbolt and Pebble to stoat. docs/migrating.md
// shows its functions. It lies in this module because the main one does not depend on
// other stores.
package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"

	"github.com/stoatdb/stoat"
)

// FromBadger copies the newest versions of all keys, with their expiry times and their
// user metadata.
func FromBadger(ctx context.Context, dst *stoat.DB, src *badger.DB) error {
	return src.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		_, err := dst.IngestEntries(ctx, func(yield func(stoat.Entry, error) bool) {
			var value []byte
			for it.Rewind(); it.Valid(); it.Next() {
				item := it.Item()
				var err error
				value, err = item.ValueCopy(value)
				var expiry time.Time // the zero time: never
				if seconds := item.ExpiresAt(); seconds != 0 {
					expiry = time.Unix(int64(seconds), 0)
				}
				if !yield(stoat.Entry{Key: item.Key(), Value: value, Options: []stoat.SetOption{
					stoat.UserMeta(item.UserMeta()), stoat.ExpiresAt(expiry),
				}}, err) {
					return
				}
			}
		}, stoat.IngestOptions{})
		return err
	})
}

// FromBbolt copies each bucket to a keyspace of the same name. A bucket b in a bucket a
// becomes the keyspace "a/b", so no name may have a slash.
func FromBbolt(ctx context.Context, dst *stoat.DB, src *bbolt.DB) error {
	return src.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return fromBucket(ctx, dst, string(name), b)
		})
	})
}

func fromBucket(ctx context.Context, dst *stoat.DB, name string, b *bbolt.Bucket) error {
	ks, err := dst.Keyspace(name, nil)
	if err != nil {
		return err
	}
	_, err = dst.Ingest(ctx, func(yield func(k, v []byte) bool) {
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if v != nil && !yield(k, v) { // a nil value is a bucket
				return
			}
		}
	}, stoat.IngestOptions{Keyspace: ks})
	if err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	return b.ForEachBucket(func(k []byte) error {
		return fromBucket(ctx, dst, name+"/"+string(k), b.Bucket(k))
	})
}

// FromPebble copies all keys of a snapshot. Range keys are left out.
func FromPebble(ctx context.Context, dst *stoat.DB, src *pebble.DB) error {
	snapshot := src.NewSnapshot()
	defer snapshot.Close()
	it, err := snapshot.NewIter(nil)
	if err != nil {
		return err
	}
	defer it.Close()
	_, err = dst.IngestEntries(ctx, func(yield func(stoat.Entry, error) bool) {
		for it.First(); it.Valid(); it.Next() {
			value, err := it.ValueAndErr()
			if !yield(stoat.Entry{Key: it.Key(), Value: value}, err) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(stoat.Entry{}, err)
		}
	}, stoat.IngestOptions{})
	return err
}
