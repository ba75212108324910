package stores

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// WriteSorted writes a table with the options of the database. The end of the writer
// syncs the file.
func (s *pebbleStore) WriteSorted(path string, entries Entries) error {
	f, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), s.options.MakeWriterOptions(0, s.db.TableFormat()))
	for key, value := range entries {
		if err := w.Set(key, value); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

// IngestFiles links the files into the database.
func (s *pebbleStore) IngestFiles(paths []string) error {
	return s.db.Ingest(context.Background(), paths)
}

func (s *pebbleStore) Checkpoint(dir string) error {
	return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
}
