package stores

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

func pebbleInfo() Info {
	return Info{
		Name:    "pebble",
		Version: moduleVersion("github.com/cockroachdb/pebble/v2"),
		Options: "as in Pebble's benchmark tool: newest format, bloom filters of 10 bits except in the last level, blocks of 32 KiB, " +
			"L0CompactionThreshold 2, L0StopWritesThreshold 1000, LBaseMaxBytes 64 MiB, one to three compactions, Snappy; batches keep buffers up to 32 MiB; GOMAXPROCS 128 for cold reads",
		Open: func(c Config) (Store, error) { return openPebble(c, pebbleOptions(c)) },
	}
}

// pebbleBlobSize is the size in bytes from which values are separated.
const pebbleBlobSize = 256

func pebbleBlobInfo() Info {
	info := pebbleInfo()
	info.Name = "pebble-blob"
	info.SmallestValue = pebbleBlobSize
	info.Options += "; values from 256 B separated, reference depth 10, garbage ratio 0.2, " +
		"minimum age of a rewrite 1 s instead of five minutes, because a run is short"
	info.Open = func(c Config) (Store, error) {
		o := pebbleOptions(c)
		o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
			return pebble.ValueSeparationPolicy{
				Enabled:               true,
				MinimumSize:           pebbleBlobSize,
				MaxBlobReferenceDepth: 10,
				RewriteMinimumAge:     time.Second,
				TargetGarbageRatio:    0.2,
			}
		}
		return openPebble(c, o)
	}
	return info
}

type pebbleStore struct {
	db      *pebble.DB
	options *pebble.Options
	write   *pebble.WriteOptions
}

func openPebble(c Config, o *pebble.Options) (Store, error) {
	c.raiseIfCold()
	db, err := pebble.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	s := &pebbleStore{db: db, options: o, write: pebble.NoSync}
	if c.Sync {
		s.write = pebble.Sync
	}
	return s, nil
}

// pebbleRetainedBytes is the size in bytes up to which a closed batch keeps its buffer for
// the next one. The default is 1 MiB, and the largest batches have 16 MB.
const pebbleRetainedBytes = 32 << 20

func (s *pebbleStore) Apply(b *Batch) error {
	w := s.db.NewBatchWithSize(b.Bytes(), pebble.WithMaxRetainedSizeBytes(pebbleRetainedBytes))
	defer w.Close()
	for i := range b.Len() {
		if err := pebbleWrite(w, b.At(i)); err != nil {
			return err
		}
	}
	return w.Commit(s.write)
}

func pebbleWrite(w *pebble.Batch, op Op) error {
	if op.Delete {
		return w.Delete(op.Key, nil)
	}
	return w.Set(op.Key, op.Value, nil)
}

func (s *pebbleStore) NewReader() (Reader, error) { return pebbleReader{s.db}, nil }

// Collect compacts all keys.
func (s *pebbleStore) Collect() error {
	return s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, true)
}

// Sync writes an empty log record and syncs it.
func (s *pebbleStore) Sync() error   { return s.db.LogData(nil, pebble.Sync) }
func (s *pebbleStore) Close() error  { return s.db.Close() }
func (s *pebbleStore) Stats() string { return s.db.Metrics().String() }

type pebbleReader struct{ db *pebble.DB }

func (r pebbleReader) Close() error { return nil }

func (r pebbleReader) Get(key []byte, fn func([]byte) error) (bool, error) {
	value, closer, err := r.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(fn(value), closer.Close())
}

func (r pebbleReader) Scan(o ScanOptions, fn func(key, value []byte) error) (err error) {
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: o.From})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	left := o.Limit
	for ok := it.First(); ok; ok = it.Next() {
		var value []byte
		if !o.KeysOnly {
			if value, err = it.ValueAndErr(); err != nil {
				return err
			}
		}
		if err = fn(it.Key(), value); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	return nil
}
