package stores

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

func badgerInfo() Info {
	return Info{
		Name:    "badger",
		Version: moduleVersion("github.com/dgraph-io/badger/v4"),
		Options: "DefaultOptions, SyncWrites if the workload syncs, block cache and memtable of the common sizes; " +
			"iterators prefetch values only from the value log; " +
			"WriteBatch for batches, Update for single keys; GOMAXPROCS 128, as its documentation recommends; " +
			"garbage collection: close and open with CompactL0OnClose, close and open, Flatten, RunValueLogGC(0.5)",
		Open: func(c Config) (Store, error) { return openBadger(c, badger.DefaultOptions(c.Dir)) },
	}
}

// badgerSeparated is the size in bytes from which badger-wisckey separates values.
const badgerSeparated = 32

func badgerWisckeyInfo() Info {
	info := badgerInfo()
	info.Name = "badger-wisckey"
	info.Options += "; ValueThreshold 32 B, so that every value is in the value log"
	info.Open = func(c Config) (Store, error) {
		return openBadger(c, badger.DefaultOptions(c.Dir).WithValueThreshold(badgerSeparated))
	}
	return info
}

// A badgerStore opens another DB in Collect. Its readers use the current one.
type badgerStore struct {
	db      *badger.DB
	options badger.Options
}

func openBadger(c Config, o badger.Options) (Store, error) {
	raiseProcessors()
	o = o.WithSyncWrites(c.Sync).WithLogger(nil).
		WithBlockCacheSize(c.CacheBytes).WithMemTableSize(c.MemtableBytes)
	s := &badgerStore{options: o}
	if err := s.reopen(o); err != nil {
		return nil, err
	}
	return s, nil
}

// Apply uses a transaction for one key and a WriteBatch for more. A transaction
// is limited to a fraction of the memtable. A WriteBatch splits where necessary,
// and is what Badger's documentation recommends for bulk writes.
func (s *badgerStore) Apply(b *Batch) error {
	if b.Len() == 1 {
		return s.db.Update(func(tx *badger.Txn) error { return badgerWrite(tx.Set, tx.Delete, b.At(0)) })
	}
	w := s.db.NewWriteBatch()
	defer w.Cancel()
	for i := range b.Len() {
		if err := badgerWrite(w.Set, w.Delete, b.At(i)); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	// A compaction keeps all versions newer than the last read transaction that
	// has ended. A WriteBatch is none, so run an empty one.
	return s.db.View(func(*badger.Txn) error { return nil })
}

func badgerWrite(set func(k, v []byte) error, del func(k []byte) error, op Op) error {
	if op.Delete {
		return del(op.Key)
	}
	return set(op.Key, op.Value)
}

func (s *badgerStore) NewReader() (Reader, error) { return badgerReader{s}, nil }

// Collect compacts everything, because only a compaction finds the garbage
// values. Then it rewrites value log files until none of them is half garbage.
// Flatten skips memtables. It also skips level 0 while it has fewer than five
// tables and all others are in one level. A close flushes the memtables, and with
// CompactL0OnClose it compacts level 0.
func (s *badgerStore) Collect() error {
	for _, o := range []badger.Options{s.options.WithCompactL0OnClose(true), s.options} {
		if err := errors.Join(s.db.Close(), s.reopen(o)); err != nil {
			return err
		}
	}
	if err := s.db.Flatten(2); err != nil {
		return err
	}
	for {
		err := s.db.RunValueLogGC(0.5)
		if errors.Is(err, badger.ErrNoRewrite) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reopen opens the database. On an error the store keeps its old DB.
func (s *badgerStore) reopen(o badger.Options) error {
	db, err := badger.Open(o)
	if err == nil {
		s.db = db
	}
	return err
}

func (s *badgerStore) Sync() error  { return s.db.Sync() }
func (s *badgerStore) Close() error { return s.db.Close() }

func (s *badgerStore) Stats() string {
	lsm, vlog := s.db.Size()
	return fmt.Sprintf("lsm %d bytes, value log %d bytes\n%s", lsm, vlog, s.db.LevelsToString())
}

type badgerReader struct{ store *badgerStore }

func (r badgerReader) Close() error { return nil }

func (r badgerReader) Get(key []byte, fn func([]byte) error) (found bool, err error) {
	err = r.store.db.View(func(tx *badger.Txn) error {
		item, err := tx.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		return item.Value(fn)
	})
	return found, err
}

func (r badgerReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	opts := badger.DefaultIteratorOptions
	// Prefetching starts a goroutine for each entry. Where the tree holds the values, scans
	// take half of the time without it.
	opts.PrefetchValues = !o.KeysOnly && r.store.options.ValueThreshold == badgerSeparated
	if o.Limit > 0 {
		opts.PrefetchSize = min(opts.PrefetchSize, o.Limit)
	}
	return r.store.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(opts)
		defer it.Close()
		left := o.Limit
		for it.Seek(o.From); it.Valid(); it.Next() {
			if err := badgerEntry(it.Item(), o.KeysOnly, fn); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		return nil
	})
}

func badgerEntry(item *badger.Item, keysOnly bool, fn func(key, value []byte) error) error {
	if keysOnly {
		return fn(item.Key(), nil)
	}
	return item.Value(func(value []byte) error { return fn(item.Key(), value) })
}

// Transact runs fn again while the store reports a conflict.
func (s *badgerStore) Transact(fn func(tx Txn) error) (conflicts int, err error) {
	for {
		err := s.db.Update(func(tx *badger.Txn) error { return fn(badgerTxn{tx}) })
		if !errors.Is(err, badger.ErrConflict) {
			return conflicts, err
		}
		conflicts++
	}
}

type badgerTxn struct{ tx *badger.Txn }

func (t badgerTxn) Get(key []byte) ([]byte, error) {
	item, err := t.tx.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

func (t badgerTxn) First(fn func(key, value []byte) error) error {
	opts := badger.DefaultIteratorOptions
	opts.PrefetchValues = false // it reads one entry
	it := t.tx.NewIterator(opts)
	defer it.Close()
	if it.Rewind(); !it.Valid() {
		return fn(nil, nil)
	}
	// The transaction keeps the key of a deletion, so it needs a copy.
	key := it.Item().KeyCopy(nil)
	return it.Item().Value(func(value []byte) error { return fn(key, value) })
}

func (t badgerTxn) Set(key, value []byte) error { return t.tx.Set(bytes.Clone(key), value) }
func (t badgerTxn) Delete(key []byte) error     { return t.tx.Delete(key) }
