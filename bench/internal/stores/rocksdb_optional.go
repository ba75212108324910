//go:build rocksdb

package stores

import (
	"errors"
	"os"

	"github.com/stoatdb/stoat/bench/internal/rocksdb"
)

func (s rocksdbStore) WriteSorted(path string, entries Entries) error {
	w, err := s.db.NewTableWriter(path)
	defer w.Destroy()
	if err != nil {
		return err
	}
	for key, value := range entries {
		if err := w.Put(key, value); err != nil {
			return err
		}
	}
	return w.Finish()
}

// IngestFiles moves the files into the database.
func (s rocksdbStore) IngestFiles(paths []string) error { return s.db.Ingest(paths) }

func (s rocksdbStore) Checkpoint(dir string) error { return s.db.Checkpoint(dir) }

// GetMany uses the batched MultiGet.
func (s rocksdbReader) GetMany(keys [][]byte, fn func(i int, value []byte) error) error {
	return s.r.GetMany(keys, fn)
}

// Follow opens a secondary instance.
func (s rocksdbStore) Follow() (Follower, error) {
	logs, err := os.MkdirTemp("", "rocksdb-secondary-")
	if err != nil {
		return nil, err
	}
	db, err := rocksdb.OpenSecondary(s.dir, logs, s.options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(logs))
	}
	return rocksdbFollower{rocksdbStore{db: db}, logs}, nil
}

type rocksdbFollower struct {
	rocksdbStore
	logs string // a directory
}

func (f rocksdbFollower) Refresh() error { return f.db.CatchUp() }
func (f rocksdbFollower) NewReader() (Reader, error) {
	return followerReader{rocksdbReader{f.db.NewReader()}}, nil
}

func (f rocksdbFollower) Close() error {
	return errors.Join(f.rocksdbStore.Close(), os.RemoveAll(f.logs))
}

// A followerReader reads a secondary, which has no call for many keys.
type followerReader struct{ Reader }
