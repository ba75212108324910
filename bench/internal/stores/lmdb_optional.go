//go:build lmdb

package stores

import (
	"errors"
	"io"
	"os"

	"github.com/stoatdb/stoat/bench/internal/lmdb"
)

// Backup copies the file. LMDB wants a descriptor, so other writers get the copy through a
// pipe.
func (s lmdbStore) Backup(w io.Writer) error {
	if f, ok := w.(*os.File); ok {
		return s.env.CopyTo(f)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, out)
		copied <- errors.Join(err, out.Close())
	}()
	err = errors.Join(s.env.CopyTo(in), in.Close())
	return errors.Join(err, <-copied)
}

// Restore copies the backup into place: it is the file of a database.
func (s lmdbStore) Restore(c Config, r io.Reader) (Store, error) {
	if err := restoreFile(c.Dir, lmdb.DataFile, r); err != nil {
		return nil, err
	}
	return openLmdb(c)
}

// Checkpoint copies the database with mdb_env_copy2, which does not sync.
func (s lmdbStore) Checkpoint(dir string) error {
	return checkpointFile(dir, lmdb.DataFile, func() error { return s.env.CopyDir(dir) })
}
