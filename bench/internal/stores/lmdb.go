//go:build lmdb

package stores

import (
	"math"

	"github.com/stoatdb/stoat/bench/internal/lmdb"
)

func lmdbInfo() Info {
	return Info{
		Name:    "lmdb",
		Version: lmdb.Version,
		Options: "map of 256 GiB, 1024 readers, NOTLS; NORDAHEAD under a memory limit, as its documentation recommends for data larger than memory; " +
			"NOSYNC if the workload does not sync, with MDB_WRITEMAP if it writes, so that a crash of the system may corrupt the database; synced writes without MDB_WRITEMAP; a reset read transaction per reader; one cgo call per entry of a scan, as its public bindings offer, though a binding could fetch many entries in one call; GOMAXPROCS 128 for several goroutines and cold reads; MDB_APPEND through a kept cursor for ascending keys; " +
			"no call returns space while the database is open",
		Unfollowed: "the reader would share the process of the writer, and a process may open an LMDB environment only once",
		Open:       openLmdb,
	}
}

// lmdbMapBytes is the size of the map in bytes: 256 GiB, or less on a 32-bit
// system.
const lmdbMapBytes = min(256<<30, math.MaxInt/4)

type lmdbStore struct{ env *lmdb.Env }

// openLmdb disables the read-ahead under a memory limit for scans too. Random loads scatter the
// order of the keys over the pages, and the system drops what it read ahead before its turn.
// A cold scan of 0.26 GB took 10 s; with a read-ahead of 8 MiB it did not end within a minute.
func openLmdb(c Config) (Store, error) {
	c.raiseIfMany()
	env, err := lmdb.Open(c.Dir, lmdb.Options{
		MapBytes: lmdbMapBytes, Readers: 1024, NoSync: !c.Sync, WriteMap: c.Unsynced, NoReadAhead: c.LimitedMemory, Append: c.Ascending,
	})
	if err != nil {
		return nil, err
	}
	return lmdbStore{env}, nil
}

func (s lmdbStore) Apply(b *Batch) error {
	return s.env.Update(func(tx lmdb.Txn) error {
		for i := range b.Len() {
			if err := lmdbWrite(tx, b.At(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func lmdbWrite(tx lmdb.Txn, op Op) error {
	if op.Delete {
		return tx.Delete(op.Key)
	}
	return tx.Put(op.Key, op.Value)
}

func (s lmdbStore) Collect() error { return nil }
func (s lmdbStore) Sync() error    { return s.env.Sync() }
func (s lmdbStore) Stats() string  { return s.env.Stats() }

func (s lmdbStore) Close() error { return s.env.Close() }

type lmdbReader struct{ r lmdb.Reader }

func (s lmdbStore) NewReader() (Reader, error) {
	r, err := s.env.NewReader()
	if err != nil {
		return nil, err
	}
	return lmdbReader{r}, nil
}

func (l lmdbReader) Close() error {
	l.r.Close()
	return nil
}

func (l lmdbReader) Get(key []byte, fn func([]byte) error) (bool, error) {
	found, err := l.r.Get(key)
	if !found || err != nil {
		return false, err
	}
	defer l.r.End()
	return true, fn(l.r.Value())
}

func (l lmdbReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	ok, err := l.r.Seek(o.From)
	defer l.r.End()
	left := o.Limit
	for ; ok && err == nil; ok, err = l.r.Next() {
		var value []byte
		if !o.KeysOnly {
			value = l.r.Value()
		}
		if err := fn(l.r.Key(), value); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	return err
}
