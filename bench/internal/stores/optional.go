package stores

import (
	"io"
	"iter"
)

// This file has what some stores offer beside reads and writes of keys. A workload
// that needs one of these skips the stores without it, unless it names another way.

// Entries yields keys with their values. The slices are valid until the next entry.
type Entries = iter.Seq2[[]byte, []byte]

// A Streamer is a store that reads a whole snapshot with several goroutines.
type Streamer interface {
	// Stream calls fn with all entries, one at a time, in any order of the keys.
	// Both slices are borrowed until fn returns.
	Stream(fn func(key, value []byte) error) error
}

// An Ingester is a store that turns sorted entries into its own files, without its
// log.
type Ingester interface {
	// Ingest writes entries, whose keys ascend. They replace older values, and are
	// durable when Ingest returns. The store was opened with its data and has
	// written nothing since.
	Ingest(entries Entries) error
}

// A FileIngester is a store that takes in files of sorted entries, which any
// program can write.
type FileIngester interface {
	// WriteSorted writes entries, whose keys ascend, to a new file.
	WriteSorted(path string, entries Entries) error

	// IngestFiles writes the entries of files whose ranges do not overlap. They
	// replace older values, and are durable when IngestFiles returns. The store may
	// take the files away.
	IngestFiles(paths []string) error
}

// A Backuper is a store that writes its whole content to one stream.
type Backuper interface {
	Backup(w io.Writer) error

	// Restore makes a database in c.Dir of a backup, and opens it. All of it is
	// durable when Restore returns. The directory does not exist.
	Restore(c Config, r io.Reader) (Store, error)
}

// A Checkpointer is a store that copies its database into a directory that does not
// exist. The copy has all applied batches and is durable. Files may be shared.
type Checkpointer interface {
	Checkpoint(dir string) error
}

// A Bulker is a store with a way of its own to write blindly from many goroutines.
// For the other stores that is Apply.
type Bulker interface {
	NewBulk() Bulk
}

// A Bulk collects writes of many goroutines, and commits them in pieces.
type Bulk interface {
	// Set writes a key. The store keeps none of the slices.
	Set(key, value []byte) error

	// Commit commits what is left, and ends the bulk.
	Commit() error
}

// A ManyGetter is a reader that gets many keys in one call.
type ManyGetter interface {
	// GetMany calls fn with the place of each key and its value, which is nil if the
	// key does not exist. The value is borrowed until GetMany returns.
	GetMany(keys [][]byte, fn func(i int, value []byte) error) error
}

// A Followed is a store that another process can read while it is open.
type Followed interface {
	// Follow opens the database a second time, for reading.
	Follow() (Follower, error)
}

// A Follower reads a database that a store writes.
type Follower interface {
	// Refresh makes later reads see all that was applied before the call.
	Refresh() error

	// NewReader returns a reader for one goroutine at a time.
	NewReader() (Reader, error)

	Close() error
}
