package stores

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"
)

// Stream uses the default number of goroutines.
func (s *badgerStore) Stream(fn func(key, value []byte) error) error {
	stream := s.db.NewStream()
	stream.Send = func(buf *z.Buffer) error {
		list, err := badger.BufferToKVList(buf)
		if err != nil {
			return err
		}
		for _, kv := range list.Kv {
			if err := fn(kv.Key, kv.Value); err != nil {
				return err
			}
		}
		return nil
	}
	return stream.Orchestrate(context.Background())
}

const (
	// badgerIngestBytes is the size in bytes of what a StreamWriter gets at once.
	badgerIngestBytes = 4 << 20

	// badgerStreamID is the number of the only stream: the input is one sequence.
	badgerStreamID = 1
)

// Ingest uses a StreamWriter beside the existing data.
func (s *badgerStore) Ingest(entries Entries) error {
	w := s.db.NewStreamWriter()
	if err := w.PrepareIncremental(); err != nil {
		w.Cancel()
		return err
	}
	if err := s.writeStream(w, entries); err != nil {
		w.Cancel()
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return s.db.Sync()
}

func (s *badgerStore) writeStream(w *badger.StreamWriter, entries Entries) error {
	buf := z.NewBuffer(2*badgerIngestBytes, "ingest")
	defer func() { _ = buf.Release() }() // it is memory of this process
	kv := pb.KV{Version: s.db.MaxVersion() + 1, StreamId: badgerStreamID}
	for key, value := range entries {
		kv.Key, kv.Value = key, value
		badger.KVToBuffer(&kv, buf)
		if buf.LenNoPadding() < badgerIngestBytes {
			continue
		}
		if err := w.Write(buf); err != nil {
			return err
		}
		buf.Reset()
	}
	return w.Write(buf)
}

func (s *badgerStore) Backup(w io.Writer) error {
	_, err := s.db.Backup(w, 0)
	return err
}

// badgerPendingWrites is the number of batches that a restore has in progress. It is
// the default of Badger's own command.
const badgerPendingWrites = 256

// Restore loads without a sync of each batch, and syncs at the end.
func (s *badgerStore) Restore(c Config, r io.Reader) (Store, error) {
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		return nil, err
	}
	o := s.options
	o.Dir, o.ValueDir = c.Dir, c.Dir
	restored := &badgerStore{options: o.WithSyncWrites(false)}
	if err := restored.reopen(restored.options); err != nil {
		return nil, err
	}
	if err := errors.Join(restored.db.Load(r, badgerPendingWrites), restored.db.Sync()); err != nil {
		return nil, errors.Join(err, restored.Close())
	}
	return restored, nil
}

// NewBulk returns a WriteBatch, which any goroutine may write to.
func (s *badgerStore) NewBulk() Bulk { return badgerBulk{s.db.NewWriteBatch()} }

type badgerBulk struct{ w *badger.WriteBatch }

// Set copies, because a WriteBatch keeps the slices until it has written them.
func (b badgerBulk) Set(key, value []byte) error {
	return b.w.Set(bytes.Clone(key), bytes.Clone(value))
}

func (b badgerBulk) Commit() error { return b.w.Flush() }
