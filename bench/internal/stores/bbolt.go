package stores

import (
	"fmt"
	"io"
	"math"
	"path/filepath"

	"go.etcd.io/bbolt"
)

func bboltInfo() Info {
	return Info{
		Name:    "bbolt",
		Version: moduleVersion("go.etcd.io/bbolt"),
		Options: "as etcd runs it: hash map freelist, not synced to disk, 10 GiB mapped from the start, but no MAP_POPULATE, which reads the whole file when it is opened; Update for one writer, " +
			"Batch for many; FillPercent 1.0 for ascending keys; GOMAXPROCS 128 for cold reads; opened for reading only before these, because it otherwise reads all pages to find the free ones; no call returns space while the database is open",
		Open: openBbolt,
	}
}

type bboltStore struct {
	db      *bbolt.DB
	writers int
	fill    float64 // the share of a page that a split fills
}

var bboltBucket = []byte("b")

// bboltFile is the name of the database in its directory.
const bboltFile = "bbolt.db"

// bboltMapBytes is the address space mapped at the open, in bytes, so that a
// growing file does not make writers wait for readers. It is 10 GiB, or less on
// a 32-bit system.
const bboltMapBytes = min(10<<30, math.MaxInt/4)

// bboltFillAscending is the fill percent of ascending keys, with which bbolt's own Compact
// writes. No later key falls into a full page.
const bboltFillAscending = 1.0

func openBbolt(c Config) (Store, error) {
	c.raiseIfCold()
	o := *bbolt.DefaultOptions
	o.FreelistType = bbolt.FreelistMapType
	o.NoFreelistSync = true
	o.InitialMmapSize = bboltMapBytes
	o.NoSync = !c.Sync
	o.ReadOnly = c.Cold // otherwise Open reads all pages, and nothing is cold
	db, err := bbolt.Open(filepath.Join(c.Dir, bboltFile), 0o600, &o)
	if err != nil {
		return nil, err
	}
	// Batch waits for more calls until the batch is full: when it holds a call
	// of every writer.
	db.MaxBatchSize = max(c.Writers, 1)
	s := &bboltStore{db: db, writers: c.Writers, fill: bbolt.DefaultFillPercent}
	if c.Ascending {
		s.fill = bboltFillAscending
	}
	if c.Cold {
		return s, nil
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bboltBucket)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create bucket: %w", err)
	}
	return s, nil
}

// Apply shares a transaction among many writers, and with it the sync and the pages that
// several of them change.
func (s *bboltStore) Apply(b *Batch) error {
	return s.commit()(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bboltBucket)
		bucket.FillPercent = s.fill
		for i := range b.Len() {
			if err := bboltWrite(bucket, b.At(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// commit returns the call that runs a write transaction. Batch is faster even in the mixtures,
// where a put waits until all four goroutines put, or for 10 ms. In small runs it made 1.3 to
// 1.5 times as many operations as Update with 5 % of puts, and 1.5 to 2 times with half.
func (s *bboltStore) commit() func(fn func(tx *bbolt.Tx) error) error {
	if s.writers > 1 {
		return s.db.Batch
	}
	return s.db.Update
}

func bboltWrite(bucket *bbolt.Bucket, op Op) error {
	if op.Delete {
		return bucket.Delete(op.Key)
	}
	return bucket.Put(op.Key, op.Value)
}

func (s *bboltStore) NewReader() (Reader, error) { return bboltReader{s.db}, nil }
func (s *bboltStore) Collect() error             { return nil }
func (s *bboltStore) Sync() error                { return s.db.Sync() }
func (s *bboltStore) Close() error               { return s.db.Close() }

func (s *bboltStore) Stats() string {
	st := s.db.Stats()
	return fmt.Sprintf("free pages %d, pending pages %d, freelist bytes %d",
		st.FreePageN, st.PendingPageN, st.FreelistInuse)
}

type bboltReader struct{ db *bbolt.DB }

func (r bboltReader) Close() error { return nil }

func (r bboltReader) Get(key []byte, fn func([]byte) error) (found bool, err error) {
	err = r.db.View(func(tx *bbolt.Tx) error {
		value := tx.Bucket(bboltBucket).Get(key)
		if value == nil {
			return nil
		}
		found = true
		return fn(value)
	})
	return found, err
}

func (r bboltReader) Scan(o ScanOptions, fn func(key, value []byte) error) error {
	return r.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bboltBucket).Cursor()
		left := o.Limit
		for k, v := c.Seek(o.From); k != nil; k, v = c.Next() {
			if o.KeysOnly {
				v = nil
			}
			if err := fn(k, v); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		return nil
	})
}

// Transact uses Batch for many writers, which shares one sync among them. Writers
// never conflict: one transaction runs after the other.
func (s *bboltStore) Transact(fn func(tx Txn) error) (conflicts int, err error) {
	return 0, s.commit()(func(tx *bbolt.Tx) error { return fn(bboltTxn{tx.Bucket(bboltBucket)}) })
}

// Backup copies the file.
func (s *bboltStore) Backup(w io.Writer) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(w)
		return err
	})
}

// Restore copies the backup into place: it is the file of a database.
func (s *bboltStore) Restore(c Config, r io.Reader) (Store, error) {
	if err := restoreFile(c.Dir, bboltFile, r); err != nil {
		return nil, err
	}
	return openBbolt(c)
}

// Checkpoint copies the file with CopyFile, which does not sync.
func (s *bboltStore) Checkpoint(dir string) error {
	return checkpointFile(dir, bboltFile, func() error {
		return s.db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(filepath.Join(dir, bboltFile), 0o600) })
	})
}

type bboltTxn struct{ bucket *bbolt.Bucket }

func (t bboltTxn) Get(key []byte) ([]byte, error) { return t.bucket.Get(key), nil }
func (t bboltTxn) First(fn func(key, value []byte) error) error {
	return fn(t.bucket.Cursor().First())
}
func (t bboltTxn) Set(key, value []byte) error { return t.bucket.Put(key, value) }
func (t bboltTxn) Delete(key []byte) error     { return t.bucket.Delete(key) }
