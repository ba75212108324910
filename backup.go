package stoat

import (
	"context"
	"io"
	"time"
)

// StreamOptions choose what DB.Stream reads. The zero value reads the newest version of
// each key of the default keyspace.
type StreamOptions struct {
	// Keyspace is the keyspace to read; nil is the default keyspace. AllKeyspaces reads
	// all keyspaces instead, one after the other.
	Keyspace     *Keyspace
	AllKeyspaces bool
	// Lower (inclusive), Upper (exclusive) and Prefix restrict the keys, as in
	// IterOptions. So do KeysOnly, AllVersions and Since.
	Lower, Upper, Prefix []byte
	KeysOnly             bool
	AllVersions          bool
	Since                uint64
	// Timestamp is the timestamp at which Stream reads keyspaces with timestamps. Zero
	// is the latest.
	Timestamp uint64
	// Deletions also shows what was deleted: keys, and ranges with StreamItem.End. Those
	// are the deletions after Since that the database still keeps.
	Deletions bool
	// Choose, if not nil, selects keys. Several goroutines call it at once.
	Choose func(key []byte) bool
	// Ordered hands over the keys in order. Otherwise only the keys of one batch are in
	// order.
	Ordered bool
	// Workers is the number of goroutines that read. Default: 8. Maximum: 256.
	Workers int
}

// A StreamBatch is a part of a stream: consecutive keys of one keyspace.
type StreamBatch struct {
	Keyspace *Keyspace // nil is the default keyspace
	Items    []StreamItem
}

// A StreamItem is one version of one key, or a deletion.
type StreamItem struct {
	Key, Value []byte
	// Version and Timestamp are those of Item.
	Version, Timestamp uint64
	// ExpiresAt is the zero time if the value never expires.
	ExpiresAt time.Time
	UserMeta  byte
	// Deleted marks a deletion: of Key, or of the range from Key to End. An End of no
	// bytes that is not nil is the end of all keys.
	Deleted bool
	End     []byte
}

// Stream reads one snapshot with several goroutines, and calls fn with its batches, one
// at a time. It returns the version of the snapshot, for StreamOptions.Since of a later
// Stream. Other transactions go on.
//
// Each goroutine reads ranges of about a megabyte. So Stream keeps many reads of the
// device under way, which makes it faster than an Iterator where data is not in memory.
// It takes about four megabytes for each worker. The items of a batch are valid until fn
// returns. An error of fn ends the stream, and Stream returns it.
func (d *DB) Stream(ctx context.Context, o StreamOptions, fn func(b *StreamBatch) error) (version uint64, err error) {
	return 0, nil
}

// BackupOptions choose what DB.Backup writes.
type BackupOptions struct {
	// Since makes an incremental backup: it holds the changes after that backup. It is
	// what Backup, Restore or VerifyBackup returned for a backup of the same database.
	// The zero value makes a full backup.
	Since BackupInfo
	// Versions is how many versions of a key a backup holds. Zero is all that the
	// database keeps.
	Versions int
	// Compression says how the backup is compressed. Default: CompressionFast.
	Compression Compression
}

// BackupInfo describes a backup. A program may store it, such as in JSON.
type BackupInfo struct {
	// Database identifies the database. A restored database is another one.
	Database string
	// Since is the version after which an incremental backup begins, and 0 for a full
	// backup. Version is the version of its snapshot. The chain of a full backup and
	// its incremental ones has each Since equal to the Version before it.
	Since, Version uint64
	// Time is when the backup was made.
	Time time.Time
	// Entries counts the versions of keys in the backup. Unchanged counts the keys that
	// an incremental backup only names, because the backup before it has them.
	Entries, Unchanged uint64
}

// Backup writes a snapshot of the database to w, or what changed in it after an earlier
// backup. Restore makes a database of it. Other transactions go on.
//
// A backup holds all keyspaces with their settings, and keys with their versions,
// values, merge operands, times of expiry and timestamps. Checksums tie its parts
// together. It is not encrypted, even if the database is.
//
// An incremental backup reads all keys, and the values that are new. It names each
// unchanged key in a few bytes. So a restored database lacks exactly what was deleted,
// no matter what compactions dropped.
func (d *DB) Backup(ctx context.Context, w io.Writer, o BackupOptions) (BackupInfo, error) {
	return BackupInfo{}, nil
}

// RestoreOptions choose how Restore makes a database.
type RestoreOptions struct {
	// Options are those of Open. Restore uses FS, Keys, DataKeyAge, Clock and
	// MemtableSize. The settings of the new database come from the backup.
	Options *Options
	// Version, if it is not 0, is the version to restore: that of one of the backups.
	// Restore leaves later backups out.
	Version uint64
}

// Restore makes a database in dir of a full backup and its incremental ones, in order.
// If dir exists, the error is fs.ErrExist of package io/fs. It returns the description of
// the last backup that it restored.
//
// Entries keep their versions. The new database has an identity of its own.
//
// Restore builds the database in dir.restore, and renames that once it is complete and
// durable. After an error or a crash, dir does not exist. A later Restore of the same
// backups goes on where the earlier one stopped. It reads the backups from their
// beginning, but writes only the rest.
//
// Restore returns ErrBackup if the backups do not belong together, and ErrCorrupt if one
// is damaged or not complete.
func Restore(ctx context.Context, dir string, o RestoreOptions, backups ...io.Reader) (BackupInfo, error) {
	return BackupInfo{}, nil
}

// VerifyBackup reads a backup to its end and checks all of it. It returns what Backup
// returned for it. It cannot tell whether an incremental backup fits another backup.
func VerifyBackup(ctx context.Context, r io.Reader) (BackupInfo, error) {
	return BackupInfo{}, nil
}
