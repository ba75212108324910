package stoat

import (
	"context"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/ingest"
)

// An Entry is a key with its value, for DB.IngestEntries. The database copies both
// before it asks for the next Entry.
type Entry struct {
	Key, Value []byte
	// Options are those of Txn.Set. They take precedence over IngestOptions.Options.
	Options []SetOption
}

// IngestOptions say how DB.Ingest writes entries.
type IngestOptions struct {
	// Keyspace is the keyspace of the keys. With nil it is the default keyspace. A
	// keyspace with timestamps is refused with ErrInvalid.
	Keyspace *Keyspace
	// Options are those of Txn.Set, for all entries.
	Options []SetOption
}

// Ingested says what DB.Ingest wrote.
type Ingested struct {
	// Version is the version of the entries, as Txn.CommitVersion is for a
	// transaction. It is 0 if there was no entry.
	Version uint64
	// Entries counts the entries. Bytes is the size of the tables and value files.
	Entries, Bytes int64
}

// A KeyOrderError says that the keys of an ingest do not ascend strictly. It is an
// ErrInvalid.
type KeyOrderError = base.KeyOrderError

// Ingest writes entries, whose keys ascend strictly, as one commit. It writes them
// directly to new tables and value files, and not to the log. So it takes bounded
// memory for any number of entries, and writes each of them once.
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
// A key that is not greater than the key before it is a KeyOrderError. Once ctx is done,
// Ingest returns its error. entries may use the database, but must not close it.
func (d *DB) Ingest(ctx context.Context, entries iter.Seq2[[]byte, []byte], o IngestOptions) (Ingested, error) {
	if entries == nil {
		return Ingested{}, errNoFunction
	}
	return d.IngestEntries(ctx, func(yield func(Entry, error) bool) {
		for key, value := range entries {
			if !yield(Entry{Key: key, Value: value}, nil) {
				return
			}
		}
	}, o)
}

// IngestEntries is Ingest for entries with options of their own. An error that entries
// yields ends the ingest, which returns that error.
func (d *DB) IngestEntries(ctx context.Context, entries iter.Seq2[Entry, error], o IngestOptions) (Ingested, error) {
	if entries == nil {
		return Ingested{}, errNoFunction
	}
	to, err := d.ingestTarget(o.Keyspace)
	if err != nil {
		return Ingested{}, err
	}
	common := metadata(o.Options)
	r, err := d.ingests.Ingest(ctx, func(yield func(ingest.Entry, error) bool) {
		for e, err := range entries {
			m := common
			if len(e.Options) > 0 {
				m = m.With(metadata(e.Options))
			}
			if !yield(ingest.Entry{Key: e.Key, Value: e.Value, Meta: d.transactions.MetaOf(o.Keyspace.inner(), m)}, err) {
				return
			}
		}
	}, to)
	return Ingested{Version: uint64(r.Version), Entries: r.Entries, Bytes: r.Bytes}, err
}

// ingestTarget returns the keyspace of an ingest, if it takes one.
func (d *DB) ingestTarget(ks *Keyspace) (to ingest.Target, err error) {
	switch {
	case d.opts.ReadOnly:
		return to, ErrReadOnly
	case ks == nil:
		return to, nil
	case ks.k.Timed():
		return to, base.Invalid("IngestOptions.Keyspace is %.80q, which has timestamps", ks.Name())
	}
	h := ks.k.Handle()
	return ingest.Target{Space: h.Space, Gate: &h.Gate}, ks.k.Usable(&d.transactions)
}
