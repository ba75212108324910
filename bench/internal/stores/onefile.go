package stores

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// This file has what the stores share whose database is one file, and a backup its copy.

// restoreFile makes a directory with the file of a backup.
func restoreFile(dir, name string, r io.Reader) error {
	return checkpointFile(dir, name, func() error {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	})
}

// checkpointFile makes a directory, calls write to put the file there, and makes both
// durable.
func checkpointFile(dir, name string, write func() error) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return errors.Join(syncPath(filepath.Join(dir, name)), syncPath(dir))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
