package stoat

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/ingest"
)

// An Entry is a key with its value, for DB.IngestEntries. The database copies both before
// it asks for the next Entry.
type Entry struct {
	// Key has 1 byte to MaxKeySize. Value may be empty.
	Key, Value []byte
	// Timestamp is the timestamp of the value, in a keyspace with timestamps. Zero means
	// IngestOptions.Timestamp.
	Timestamp uint64
	// Options are options as for Txn.Set. They take precedence over IngestOptions.Options.
	Options []SetOption
}

// IngestOptions say how DB.Ingest writes entries.
type IngestOptions struct {
	// Keyspace is the keyspace of the keys, nil for the default keyspace.
	Keyspace *Keyspace
	// Timestamp is the timestamp of entries without one of their own, in a keyspace with
	// timestamps.
	Timestamp uint64
	// Options are options as for Txn.Set, for all entries.
	Options []SetOption
	// Memory is how many bytes of entries BulkLoad sorts in memory. Default: a quarter
	// of Options.MemoryBudget.
	Memory int64
}

// Ingested says what DB.Ingest wrote.
type Ingested struct {
	// Version is the version of the entries, as Txn.CommitVersion; 0 if there were none.
	Version uint64
	// Entries counts the entries. Bytes is the size of the tables and value files.
	Entries, Bytes int64
}

// A KeyOrderError says that the keys of an ingest do not ascend strictly, or the timestamps
// of a key do not descend strictly. It is an ErrInvalid.
type KeyOrderError struct {
	// Position is the place of Key in the input. The first key has position 0.
	Position int64
	// Key is not greater than Previous, the key before it.
	Key, Previous []byte
	// Timestamp and PreviousTimestamp are those of the two, in a keyspace with timestamps.
	// If the keys are equal, Timestamp is not smaller.
	Timestamp, PreviousTimestamp uint64
}

// Error implements error.
func (e *KeyOrderError) Error() string { return (*base.KeyOrderError)(e).Error() }

// Unwrap returns ErrInvalid.
func (e *KeyOrderError) Unwrap() error { return ErrInvalid }

// Ingest writes entries, whose keys ascend strictly, as one commit. It writes each of them
// once, to new tables and value files, and not to the log. It takes bounded memory for any
// number of entries.
//
// The entries replace older values of their keys. Snapshots that began before see none
// of them; later ones see all. For a transaction that read one of the keys, or a range
// with one of them, the ingest is a write. Transactions go on meanwhile. At the end,
// commits wait until the memtables are flushed and the files are part of the database.
//
// When Ingest returns nil, its entries are on the device, and so is everything that was
// committed before. After an error or a crash, none of the entries is in the database.
// Only after ErrFailed, the next Open may find all of them.
//
// The log does not have the entries. So an ingest ends all loops of DB.Subscribe with
// *feed.GoneError, also those that read other keyspaces only.
//
// A key that is not greater than the key before it is a KeyOrderError. In a keyspace with
// timestamps, a key may come again with a smaller timestamp. Once ctx is done,
// Ingest returns the error of ctx. While entries has more to yield, Ingest notices that only at
// the next entry. DB.Close ends Ingest in the same way. So Close waits until entries yields or
// returns. entries may use the database, but must not close it.
func (d *DB) Ingest(ctx context.Context, entries iter.Seq2[[]byte, []byte], o IngestOptions) (Ingested, error) {
	return d.IngestEntries(ctx, ingest.WithoutErrors(entries, func(k, v []byte) Entry { return Entry{Key: k, Value: v} }), o)
}

// IngestEntries is Ingest for entries with options of their own. An error that entries
// yields ends the ingest, which returns that error.
func (d *DB) IngestEntries(ctx context.Context, entries iter.Seq2[Entry, error], o IngestOptions) (Ingested, error) {
	return d.ingest(ctx, entries, o, d.engine.Ingests.Ingest)
}

// BulkLoad is IngestEntries for entries in any order. Of entries with equal keys, it takes
// the last one. Entries that exceed IngestOptions.Memory go to sorted temporary files in
// the directory of the database, which BulkLoad or the next Open deletes. Each entry
// is then written twice, and needs twice its space until BulkLoad returns. BulkLoad merges
// as many temporary files at once as there are 1.5 MiB in Memory, and fewer if entries are
// large. With more of them, entries are written a third time: by default from 2.7 GB on.
func (d *DB) BulkLoad(ctx context.Context, entries iter.Seq2[Entry, error], o IngestOptions) (Ingested, error) {
	memory := o.Memory
	if memory <= 0 {
		memory = d.opts.MemoryBudget / 4
	}
	return d.ingest(ctx, entries, o, d.engine.Ingests.BulkLoad(memory))
}

// ingest calls run, which is Engine.Ingest or made by Engine.BulkLoad, with the entries.
func (d *DB) ingest(ctx context.Context, entries iter.Seq2[Entry, error], o IngestOptions, run ingest.Func) (Ingested, error) {
	if d.opts.ReadOnly {
		return Ingested{}, ErrReadOnly
	}
	if entries == nil {
		return Ingested{}, errNoFunction
	}
	target, err := d.engine.Transactions.IngestTarget(o.Keyspace.inner())
	if err != nil {
		return Ingested{}, err
	}
	common := metadata(o.Options)
	r, err := run(ctx, func(yield func(ingest.Entry, error) bool) {
		for e, err := range entries {
			to := ingest.Entry{Value: e.Value}
			if err == nil {
				to.Key, to.Meta, err = target.Entry(e.Key, cmp.Or(e.Timestamp, o.Timestamp), common.With(metadata(e.Options)))
			}
			if !yield(to, err) {
				return
			}
		}
	}, ingest.Target{Space: target.Space, Passage: target.Passage})
	var order *base.KeyOrderError
	if errors.As(err, &order) {
		err = (*KeyOrderError)(target.OrderError(order))
	}
	return Ingested{Version: uint64(r.Version), Entries: r.Entries, Bytes: r.Bytes}, err
}
