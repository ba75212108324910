//go:build rocksdb

package stores

import (
	"sync"

	"github.com/stoatdb/stoat/bench/internal/rocksdb"
)

func rocksdbInfo() Info {
	return Info{
		Name:    "rocksdb",
		Version: rocksdb.Version,
		Options: "as its page on basic tuning recommends: dynamic level sizes, six background jobs, blocks of 16 KiB, format 5, " +
			"index and filters in the cache; max_write_buffer_number 4; 2 MiB of read-ahead for cold scans of everything; bloom filters of 10 bits, Snappy; four recycled log files if the workload syncs, with the one recovery mode in which version 7.8.3 recycles; GOMAXPROCS 128 for several goroutines and cold reads; garbage collection: CompactRange; " +
			"one cgo call per entry of a scan, as its public bindings offer, though a binding could fetch many entries in one call",
		Open: func(c Config) (Store, error) { return openRocksdb(c, 0) },
	}
}

// rocksdbReadAhead is the read-ahead of a cold scan in bytes. RocksDB's header advises more than
// 2 MB for long scans of spinning disks. In small runs it made a scan of values of 1 KiB 1.07 to
// 1.5 times as fast, and one of 128 B no slower.
const rocksdbReadAhead = 2 << 20

// rocksdbBlobSize is the size in bytes from which values go to blob files.
const rocksdbBlobSize = 256

func rocksdbBlobInfo() Info {
	info := rocksdbInfo()
	info.Name = "rocksdb-blob"
	info.SmallestValue = rocksdbBlobSize
	info.Options += "; blob files from 256 B, collected with the default age cutoff (the oldest quarter), which share the block cache"
	info.Open = func(c Config) (Store, error) { return openRocksdb(c, rocksdbBlobSize) }
	return info
}

type rocksdbStore struct {
	db      rocksdb.DB
	dir     string
	options rocksdb.Options
}

func openRocksdb(c Config, smallestBlob int) (Store, error) {
	c.raiseIfMany()
	o := rocksdb.Options{
		CacheBytes: c.CacheBytes, MemtableBytes: c.MemtableBytes, SmallestBlob: smallestBlob, Sync: c.Sync,
	}
	if c.Cold && c.Scans {
		o.ReadAhead = rocksdbReadAhead
	}
	db, err := rocksdb.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	return rocksdbStore{db, c.Dir, o}, nil
}

// rocksdbBatches has batches for reuse, with the memory of their largest list.
var rocksdbBatches = sync.Pool{New: func() any { return rocksdb.NewBatch() }}

func (s rocksdbStore) Apply(b *Batch) error {
	w := rocksdbBatches.Get().(*rocksdb.Batch)
	defer rocksdbBatches.Put(w)
	w.Reset()
	for i := range b.Len() {
		if op := b.At(i); op.Delete {
			w.Delete(len(op.Key))
		} else {
			w.Put(len(op.Key), len(op.Value))
		}
	}
	return s.db.Write(w, b.buf)
}

func (s rocksdbStore) Collect() error {
	s.db.CompactRange()
	return nil
}

func (s rocksdbStore) Sync() error   { return s.db.SyncLog() }
func (s rocksdbStore) Stats() string { return s.db.Stats() }

func (s rocksdbStore) Close() error {
	s.db.Close()
	return nil
}

type rocksdbReader struct{ r rocksdb.Reader }

func (s rocksdbStore) NewReader() (Reader, error) { return rocksdbReader{s.db.NewReader()}, nil }

func (s rocksdbReader) Close() error {
	s.r.Close()
	return nil
}

func (s rocksdbReader) Get(key []byte, fn func([]byte) error) (bool, error) {
	found, err := s.r.Get(key)
	if !found || err != nil {
		return false, err
	}
	defer s.r.GetEnd()
	return true, fn(s.r.Value())
}

func (s rocksdbReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	withValue := !o.KeysOnly
	ok := s.r.Seek(o.From, withValue)
	defer s.r.SeekEnd()
	left := o.Limit
	for ; ok; ok = s.r.Next(withValue) {
		var value []byte
		if withValue {
			value = s.r.Value()
		}
		if err := fn(s.r.Key(), value); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	return s.r.Err()
}
