package stoat

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat/internal/backup"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/jobs"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/stream"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// StreamOptions choose what DB.Stream reads. The zero value reads the newest version of
// each key of the default keyspace.
type StreamOptions struct {
	// Keyspace is the keyspace to read; nil is the default keyspace. AllKeyspaces reads
	// all of them, whatever Keyspace says, and also those that are dropped meanwhile.
	Keyspace     *Keyspace
	AllKeyspaces bool
	// Timestamp is the timestamp to read at, in keyspaces with timestamps. Zero is the
	// latest.
	Timestamp uint64
	// IterOptions restrict keys and versions. Reverse is not possible. In keyspaces with
	// timestamps, Since without AllVersions shows the version of each key at Timestamp, if
	// it is a value of a later transaction.
	IterOptions
	// Deletions also shows deleted keys, and deleted ranges before the keys in them, if the
	// database still keeps the deletions. With timestamps it shows all versions.
	Deletions bool
	// Choose, if not nil, selects keys. Several goroutines of Stream call it at once. A
	// panic in it therefore ends the process.
	Choose func(key []byte) bool
	// Ordered delivers the batches in the order of the keys. Otherwise only the items of
	// one batch are in order.
	Ordered bool
	// Workers is the number of goroutines that read. Default: 8. Maximum: 256.
	Workers int
}

// A StreamBatch is a part of a stream.
type StreamBatch struct {
	// Items are in order. Keyspace is the keyspace of their keys.
	Items    []StreamItem
	Keyspace *Keyspace
}

// A StreamItem is a version of a key, or a deletion.
type StreamItem struct {
	// Key, Value, Version, Timestamp, ExpiresAt, UserMeta and Deleted are what methods of
	// Item return. With an End that is not nil, the keys from Key to End, exclusive, were
	// deleted. An End of no bytes is the end of all keys.
	Key, Value, End    []byte
	Version, Timestamp uint64
	ExpiresAt          time.Time
	UserMeta           byte
	Deleted            bool
}

// Stream reads a snapshot with several goroutines, and calls fn with its batches, one at a
// time. A batch is valid until fn returns. Stream returns the version of the snapshot, for
// Since of a later stream, or the error that ended it, such as that of fn. If commits may be
// buffered, the caller calls DB.Sync before it stores the version. Each worker takes
// about two megabytes.
func (d *DB) Stream(ctx context.Context, o StreamOptions, fn func(b *StreamBatch) error) (version uint64, err error) {
	if fn == nil || o.Reverse || o.Workers < 0 || o.Workers > stream.WorkersMax {
		return 0, base.Invalid("Stream needs a function, at most %d workers, and no Reverse", stream.WorkersMax)
	}
	var tx Txn
	begin := func() (err error) { tx, err = d.BeginContext(ctx, ReadOnly); return err }
	keyspaces := []*Keyspace{o.Keyspace}
	if o.AllKeyspaces {
		keyspaces, err = d.allKeyspaces(begin)
	} else {
		err = begin()
	}
	if err != nil {
		return 0, err
	}
	defer tx.Discard()
	return tx.ReadVersion(), guardRead(tx, func(tx Txn) (err error) {
		streams := make([]stream.Items[Item, StreamItem], len(keyspaces))
		for i := range streams {
			o.Keyspace = keyspaces[i]
			if streams[i], err = tx.stream(o); err != nil {
				return err
			}
		}
		for i := range streams {
			batch := func(items []StreamItem) error { return fn(&StreamBatch{items, keyspaces[i]}) }
			if err = streams[i].Run(ctx, batch); err != nil {
				return err
			}
		}
		return nil
	})
}

// stream returns what Stream reads of the keyspace of o.
func (tx Txn) stream(o StreamOptions) (s stream.Items[Item, StreamItem], err error) {
	tx = tx.In(o.Keyspace)
	view, at := tx.t.Reads()
	of, timed := o.IterOptions, o.Keyspace != nil && o.Keyspace.inner().Timed()
	of.AllVersions = o.AllVersions || o.Deletions
	if o.Timestamp == 0 {
		o.Timestamp = math.MaxUint64
	}
	var atTime TimedTxn
	if timed {
		if atTime.t, err = tx.t.At(o.Timestamp).Admit(); err != nil {
			return s, err
		}
	}
	return stream.Items[Item, StreamItem]{Snapshot: stream.Snapshot{View: view, At: at}, Space: tx.t.Space(), Timed: timed,
		Lower: o.Lower, Upper: o.Upper, Prefix: o.Prefix, KeysOnly: o.KeysOnly, AllVersions: o.AllVersions, Since: o.Since,
		Deletions: o.Deletions, Choose: o.Choose, Ordered: o.Ordered, Workers: o.Workers,
		Get: tx.GetItem, Expired: tx.t.Expired, Check: tx.t.Check,
		Open: func(lo, hi []byte) stream.Cursor[Item] {
			of := of
			if of.Lower, of.Upper, of.Prefix = lo, hi, nil; timed {
				if !of.AllVersions {
					of.Since = 0 // older versions tell which one is current
				}
				return atTime.Iterator(of)
			}
			return tx.Iterator(of)
		}}, nil
}

// ErrBackup says that backups do not belong together, such as when one is missing.
var ErrBackup = backup.ErrChain

// BackupOptions choose what DB.Backup writes.
type BackupOptions struct {
	// Since is what Backup or VerifyBackup returned for an earlier backup. The backup is
	// then incremental: it has the changes after the earlier one. The zero value makes a
	// full backup.
	Since BackupInfo
	// Versions is how many versions of a key the backup has at most. Default: NumVersions
	// of the keyspace.
	Versions int
	// Compression says how the backup is compressed. Default: CompressionFast.
	Compression Compression
}

// BackupInfo describes a backup. A program may store it, such as in JSON.
type BackupInfo struct {
	// Database is the identity of the database. A restored database has another identity.
	Database string
	// Version is the version of the snapshot in the backup. Since is the Version of the
	// backup before an incremental one, and 0 in a full backup.
	Since, Version uint64
	// Time is when the backup was made.
	Time time.Time
	// Entries counts the versions of keys in the backup. Unchanged counts the versions
	// that an incremental backup only names, because an earlier backup has them. Of
	// keyspaces with a filter it names none.
	Entries, Unchanged uint64
}

// Backup writes a snapshot of the database to w, or what changed in it after an earlier
// backup. The backup has all keyspaces with their settings. All commits in it are durable
// in the database. A backup is never encrypted. After a crash of the writer, Backup of a
// read-only database may return ErrReadOnly, as Sync does.
//
// A follower refreshes before its backup. It does not learn that its writer has failed
// (ErrFailed), so its backup may have commits that the database then loses. After ErrFailed,
// begin a new chain with a full backup.
//
// An incremental backup reads all keys, and the new values. It also names each unchanged
// key. So deleted keys are absent after the restore, even if compactions have dropped all
// traces of them.
//
// A Filter changes values without new versions. So an incremental backup has all values of
// a keyspace that has a filter, or once had one, as a full backup does. The same holds once the
// MergeFunction of a keyspace has changed.
func (d *DB) Backup(ctx context.Context, w io.Writer, o BackupOptions) (info BackupInfo, err error) {
	if w == nil || o.Versions < 0 || o.Compression > CompressionSmall {
		return info, base.Invalid("a backup needs a writer, 0 or more versions, and a known compression")
	}
	if err := d.Refresh(ctx); err != nil {
		return info, err
	}
	tx, state, err := d.beginBackup(ctx)
	if err != nil {
		return info, err
	}
	defer tx.Discard()
	err = guardRead(tx, func(tx Txn) error {
		if err := d.SyncContext(ctx); err != nil {
			return err
		}
		view, at := tx.t.Reads()
		h := backup.HeaderOf(state, at)
		h.Nonce, h.TimeMs, h.State.ClockHighMs = rand.Uint64(), base.NowMs(d.opts.Clock), d.engine.Store.Now()
		if err := h.After(backup.Info(o.Since)); err != nil {
			return err
		}
		done, err := backup.Write(ctx, w, backup.WriteOptions{Header: h, Versions: o.Versions,
			Snapshot: stream.Snapshot{View: view, At: at}, Compression: settings.Compression(o.Compression), Check: tx.t.Check})
		info = BackupInfo(done)
		return err
	})
	return info, err
}

// beginBackup begins a transaction, and returns the state of the manifest at that moment:
// the keyspaces that the transaction sees, with their settings.
func (d *DB) beginBackup(ctx context.Context) (tx Txn, state manifest.State, err error) {
	still := d.engine.Spaces.Still
	if f := d.engine.Follower; f != nil {
		still = func(fn func() error) error { return f.Still(work.Given(ctx), fn) }
	}
	err = still(func() (err error) {
		tx, err = d.BeginContext(ctx, ReadOnly)
		state = d.engine.Store.State()
		return err
	})
	return tx, state, err
}

// RestoreOptions choose how Restore makes a database.
type RestoreOptions struct {
	// Options are those of Open. The settings of the database come from the backup.
	Options *Options
	// Version, if it is not 0, is that of the last backup to restore. If consecutive backups
	// have it, the last of them is meant. Restore ignores the backups after it, but must be
	// able to read the beginning of the next one, which says its version.
	Version uint64
}

// Restore makes a database in dir of a full backup and its incremental ones, in order. It
// describes the last one. If dir exists, the error is fs.ErrExist of package io/fs; if a
// backup is damaged or incomplete, it is ErrCorrupt.
//
// Entries keep their versions. Once NumVersions was raised, a key may have fewer old versions
// than in the original. Commits after the restore get versions that the original gave
// to other commits. So a consumer of DB.Subscribe, or of Since, begins anew with a copy.
//
// Restore works in dir.restore, and renames that when it is complete and durable. After an
// error or a crash, dir does not exist. Then the same Restore reads all, and writes the rest.
// If dir.restore is of other backups, the error is ErrBackup: remove it first.
func Restore(ctx context.Context, dir string, o RestoreOptions, backups ...io.Reader) (BackupInfo, error) {
	opts := o.Options.withDefaults()
	fs, err := opts.FS, opts.validate()
	if err == nil {
		dir, err = absolute(fs, dir)
	}
	if err != nil {
		return BackupInfo{}, err
	}
	info, err := backup.Restore(ctx, backup.RestoreOptions{FS: fs, Dir: fs.Join(dir),
		UpTo: o.Version, TableSize: jobs.TableSize(opts.MemtableSize), NowMs: base.NowMs(opts.Clock),
		Random: rand.Uint64, Encrypts: opts.Keys != nil,
		Prepare: func(temp string) (vfs.FS, record.Sealer, error) {
			// A data key that gets old meanwhile is replaced, and hides a failed sync of names.
			return engine.PrepareKeys(opts.engine(vfs.Strict(opts.FS, temp), temp))
		}}, backups)
	if err != nil {
		err = fmt.Errorf("restore %s: %w", dir, err)
	}
	return BackupInfo(info), err
}

// VerifyBackup reads a backup to its end, and checks all of it. It describes the backup.
func VerifyBackup(ctx context.Context, r io.Reader) (BackupInfo, error) {
	info, err := backup.Verify(ctx, r)
	return BackupInfo(info), err
}
