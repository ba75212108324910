package stores

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/sorted"
)

// Stream uses the default number of goroutines.
func (s *stoatStore) Stream(fn func(key, value []byte) error) error {
	_, err := s.db.Stream(context.Background(), stoat.StreamOptions{}, func(b *stoat.StreamBatch) error {
		for i := range b.Items {
			if err := fn(b.Items[i].Key, b.Items[i].Value); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (s *stoatStore) Ingest(entries Entries) error {
	_, err := s.db.Ingest(context.Background(), entries, stoat.IngestOptions{})
	return err
}

func (s *stoatStore) WriteSorted(path string, entries Entries) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := sorted.NewWriter(f, sorted.Options{})
	if err != nil {
		return err
	}
	for key, value := range entries {
		if err := w.Add(sorted.Entry{Key: key, Value: value}); err != nil {
			return err
		}
	}
	if err := w.Finish(); err != nil {
		return err
	}
	return f.Sync()
}

func (s *stoatStore) IngestFiles(paths []string) error {
	_, err := sorted.Ingest(context.Background(), s.db, nil, paths, stoat.IngestOptions{})
	return err
}

func (s *stoatStore) Backup(w io.Writer) error {
	_, err := s.db.Backup(context.Background(), w, stoat.BackupOptions{})
	return err
}

func (s *stoatStore) Restore(c Config, r io.Reader) (Store, error) {
	o := *s.options
	if _, err := stoat.Restore(context.Background(), c.Dir, stoat.RestoreOptions{Options: &o}, r); err != nil {
		return nil, err
	}
	return openStoat(c, &o)
}

func (s *stoatStore) Checkpoint(dir string) error { return s.db.Checkpoint(context.Background(), dir) }

// NewBulk returns a batch that commits in pieces of the default size.
func (s *stoatStore) NewBulk() Bulk {
	return stoatBulk{s.db.NewBatch(stoat.BatchOptions{Pieces: true})}
}

type stoatBulk struct{ b stoat.Batch }

func (b stoatBulk) Set(key, value []byte) error { return b.b.Set(key, value) }
func (b stoatBulk) Commit() error               { return b.b.Commit() }

// GetMany reuses a slice of values for all calls.
func (r *stoatReader) GetMany(keys [][]byte, fn func(i int, value []byte) error) error {
	return r.db.View(func(tx stoat.Txn) error {
		values, err := tx.GetMany(keys, r.values[:0])
		if err != nil {
			return err
		}
		r.values = values
		for i, value := range values {
			if err := fn(i, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// Follow opens a follower that sees commits only after a Refresh.
func (s *stoatStore) Follow() (Follower, error) {
	o := *s.options
	o.FollowEvery = -1
	db, err := stoat.OpenFollower(s.dir, &o)
	if err != nil {
		return nil, err
	}
	return stoatFollower{db}, nil
}

type stoatFollower struct{ db *stoat.DB }

func (f stoatFollower) Refresh() error             { return f.db.Refresh(context.Background()) }
func (f stoatFollower) NewReader() (Reader, error) { return &stoatReader{db: f.db}, nil }
func (f stoatFollower) Close() error               { return f.db.Close() }
