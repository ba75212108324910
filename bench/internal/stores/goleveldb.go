package stores

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

func goleveldbInfo() Info {
	return Info{
		Name:    "goleveldb",
		Version: moduleVersion("github.com/syndtr/goleveldb"),
		Options: "bloom filters of 10 bits, Snappy; garbage collection: CompactRange; otherwise the defaults",
		Open:    openGoleveldb,
	}
}

type goleveldbStore struct {
	db    *leveldb.DB
	write *opt.WriteOptions
}

func openGoleveldb(c Config) (Store, error) {
	db, err := leveldb.OpenFile(c.Dir, &opt.Options{
		BlockCacheCapacity: int(c.CacheBytes),
		WriteBuffer:        int(c.MemtableBytes),
		Filter:             filter.NewBloomFilter(10),
		Compression:        opt.SnappyCompression,
		// The default is 500, and a gigabyte has more tables.
		OpenFilesCacheCapacity: 4096,
	})
	if err != nil {
		return nil, err
	}
	return &goleveldbStore{db: db, write: &opt.WriteOptions{Sync: c.Sync}}, nil
}

func (s *goleveldbStore) Apply(b *Batch) error {
	w := leveldb.MakeBatch(b.Bytes())
	for i := range b.Len() {
		if op := b.At(i); op.Delete {
			w.Delete(op.Key)
		} else {
			w.Put(op.Key, op.Value)
		}
	}
	return s.db.Write(w, s.write)
}

func (s *goleveldbStore) NewReader() (Reader, error) { return goleveldbReader{s.db}, nil }

func (s *goleveldbStore) Collect() error { return s.db.CompactRange(util.Range{}) }

// Sync deletes a key that no workload uses, with a sync, which also syncs the
// log. The store has no call that only syncs.
func (s *goleveldbStore) Sync() error {
	return s.db.Delete([]byte{0}, &opt.WriteOptions{Sync: true})
}

func (s *goleveldbStore) Close() error { return s.db.Close() }

func (s *goleveldbStore) Stats() string {
	text, err := s.db.GetProperty("leveldb.stats")
	if err != nil {
		return err.Error()
	}
	return text
}

type goleveldbReader struct{ db *leveldb.DB }

func (r goleveldbReader) Close() error { return nil }

// Get passes a copy to fn, because the store has no borrowing read.
func (r goleveldbReader) Get(key []byte, fn func([]byte) error) (bool, error) {
	value, err := r.db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, fn(value)
}

func (r goleveldbReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	it := r.db.NewIterator(&util.Range{Start: o.From}, nil)
	defer it.Release()
	left := o.Limit
	for it.Next() {
		var value []byte
		if !o.KeysOnly {
			value = it.Value()
		}
		if err := fn(it.Key(), value); err != nil {
			return err
		}
		if left--; left == 0 {
			break
		}
	}
	return it.Error()
}
