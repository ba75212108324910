package stores

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat"
)

func stoatInfo() Info {
	return Info{
		Name:    "stoat",
		Version: "this tree",
		Options: "default options, which compress no values; Buffered if the workload does not sync",
		Open:    func(c Config) (Store, error) { return openStoat(c, &stoat.Options{}) },
	}
}

func stoatFastInfo() Info {
	return Info{
		Name:     "stoat-fast",
		Version:  "this tree",
		Options:  "like stoat with CompressionFast; only for values that compress",
		TextOnly: true,
		Open: func(c Config) (Store, error) {
			return openStoat(c, &stoat.Options{Compression: stoat.CompressionFast})
		},
	}
}

// StoatEncrypted is the name of stoat with encryption.
const StoatEncrypted = "stoat-encrypted"

func stoatEncryptedInfo() Info {
	key := stoat.MasterKey{ID: "benchmark", Key: bytes.Repeat([]byte{1}, stoat.MasterKeySize)}
	return Info{
		Name:    StoatEncrypted,
		Version: "this tree",
		Options: "like stoat with encryption, by a fixed master key",
		Open: func(c Config) (Store, error) {
			return openStoat(c, &stoat.Options{Keys: stoat.StaticKeys(key)})
		},
	}
}

type stoatStore struct {
	db      *stoat.DB
	dir     string
	options *stoat.Options
}

// openStoat ignores the sizes of the configuration: the comparison measures
// stoat with its defaults.
func openStoat(c Config, o *stoat.Options) (Store, error) {
	o.Durability = stoat.Buffered
	if c.Sync {
		o.Durability = stoat.Synced
	}
	db, err := stoat.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	return &stoatStore{db: db, dir: c.Dir, options: o}, nil
}

func (s *stoatStore) Apply(b *Batch) error {
	return s.db.Update(func(tx stoat.Txn) error {
		for i := range b.Len() {
			if err := stoatWrite(tx, b.At(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func stoatWrite(tx stoat.Txn, op Op) error {
	if op.Delete {
		return tx.Delete(op.Key)
	}
	return tx.Set(op.Key, op.Value)
}

func (s *stoatStore) NewReader() (Reader, error) { return &stoatReader{db: s.db}, nil }

// Collect does nothing: stoat reclaims space by itself, and the comparison
// measures that.
func (s *stoatStore) Collect() error { return nil }

func (s *stoatStore) Sync() error   { return s.db.Sync() }
func (s *stoatStore) Close() error  { return s.db.Close() }
func (s *stoatStore) Stats() string { return fmt.Sprintf("%+v", s.db.Stats()) }

type stoatReader struct {
	db     *stoat.DB
	values [][]byte // of the last GetMany
}

func (r *stoatReader) Close() error { return nil }

func (r *stoatReader) Get(key []byte, fn func([]byte) error) (found bool, err error) {
	err = r.db.View(func(tx stoat.Txn) error {
		value, err := tx.Get(key)
		if errors.Is(err, stoat.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		return fn(value)
	})
	return found, err
}

func (r *stoatReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	return r.db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{Lower: o.From, KeysOnly: o.KeysOnly})
		defer it.Close()
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
				return nil
			}
		}
		return it.Err()
	})
}

// ScanRange loops over tx.All.
func (r *stoatReader) ScanRange(fn func(key, value []byte) error) error {
	return r.db.View(func(tx stoat.Txn) error {
		for key, value := range tx.All() {
			if err := fn(key, value); err != nil {
				return err
			}
		}
		return tx.Err()
	})
}

// stoatRetries is the number of retries of a transaction. It does not end before
// the workload does.
const stoatRetries = 1 << 20

// Transact counts each further run of fn as a conflict.
func (s *stoatStore) Transact(fn func(tx Txn) error) (conflicts int, err error) {
	conflicts = -1
	err = s.db.Update(func(tx stoat.Txn) error {
		conflicts++
		return fn(stoatTxn{tx})
	}, stoat.Retries(stoatRetries))
	return conflicts, err
}

type stoatTxn struct{ tx stoat.Txn }

func (t stoatTxn) Get(key []byte) ([]byte, error) {
	value, err := t.tx.Get(key)
	if errors.Is(err, stoat.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

func (t stoatTxn) First(fn func(key, value []byte) error) error {
	it := t.tx.Iterator(stoat.IterOptions{})
	defer it.Close()
	if !it.First() {
		return errors.Join(it.Err(), fn(nil, nil))
	}
	return fn(it.Key(), it.Value())
}

func (t stoatTxn) Set(key, value []byte) error { return t.tx.Set(key, value) }
func (t stoatTxn) Delete(key []byte) error     { return t.tx.Delete(key) }
