package stoat

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// Callers branch on these errors with errors.Is.
var (
	// ErrNotFound says that the key has no value in this snapshot.
	ErrNotFound = base.ErrNotFound

	// ErrConflict says that another transaction changed something that this
	// transaction had read, and committed first. Nothing was written; run the
	// transaction again.
	ErrConflict = base.ErrConflict

	// ErrClosed says that the database is closed.
	ErrClosed = base.ErrClosed

	// ErrTxnDone says that the transaction or the batch has ended, or that the iterator or
	// the snapshot was closed.
	ErrTxnDone = base.ErrTxnDone

	// ErrReadOnly says that the transaction or the database is read-only, and that the
	// call needs to write. In a database of Options.ReadOnly, Subscribe and Checkpoint
	// return it too. So do Sync and Backup there after a crash of the last writer.
	ErrReadOnly = base.ErrReadOnly

	// ErrLocked says that another open holds the database, in this process or in
	// another. That open must be closed first, or its process must end. Opens with
	// Options.ReadOnly may share a database. A restore returns it beside another restore
	// into the same directory, and Salvage and Repair beside a writer.
	ErrLocked = vfs.ErrLocked

	// ErrStale says that a database of OpenFollower cannot follow any more. Another
	// database has taken the place of its files, or the writer frees the log before the
	// follower can read it. Reads go on, and see what they saw before.
	ErrStale = base.ErrStale

	// ErrNoSpace says that the disk is full, or that only deletions are still
	// possible. The remaining space is reserved for jobs that free space. Nothing
	// was lost. The caller can retry the write when the disk has space.
	ErrNoSpace = vfs.ErrNoSpace

	// ErrCorrupt says that stored bytes differ from the written ones. The text says what
	// is damaged and, where they are known, the file, the offset, and the read and the
	// expected value.
	ErrCorrupt = base.ErrCorrupt

	// ErrFailed says that a write to the log or the manifest has failed, or a sync of the
	// directory. The database takes no more writes, because the disk may hold any part of
	// that write. The error wraps the cause. Reads go on.
	//
	// Close the database and open it again. Everything that was committed as Synced
	// before is there. A transaction whose commit returned ErrFailed is there as a
	// whole or not at all.
	ErrFailed = base.ErrFailed

	// ErrVersion says that a later version of stoat wrote the database, in a format
	// or with a feature that this version does not know. The text names it. Nothing
	// is damaged.
	ErrVersion = base.ErrVersion

	// ErrInvalid says that an argument or an option has no meaning, such as a nil
	// function, an unknown mode, or a size out of range. The text names it. Nothing
	// was done.
	ErrInvalid = base.ErrInvalid

	// ErrNoKeyspace says that the keyspace does not exist, or was dropped.
	ErrNoKeyspace = base.ErrNoKeyspace

	// ErrTimestampDiscarded says that a read or a write names a timestamp below the
	// argument of an earlier Keyspace.DiscardBelow.
	ErrTimestampDiscarded = base.ErrTimestampDiscarded

	// ErrBatchTooLarge says that a batch would exceed BatchOptions.Size, and that it may
	// not commit in pieces.
	ErrBatchTooLarge = base.ErrBatchTooLarge

	// ErrSnapshotExpired says that a snapshot is older than SnapshotOptions.MaxAge.
	ErrSnapshotExpired = base.ErrSnapshotExpired

	// ErrEmptyKey says that the key is empty.
	ErrEmptyKey = base.ErrEmptyKey

	// ErrKeyTooLarge says that the key is longer than MaxKeySize, 64 KiB.
	ErrKeyTooLarge = base.ErrKeyTooLarge

	// ErrValueTooLarge says that the value is longer than MaxValueSize, 4 GiB less
	// one byte.
	ErrValueTooLarge = base.ErrValueTooLarge
)

// errUnproven is the error of Sync for a read-only database whose last commits may not be
// on the device.
var errUnproven = fmt.Errorf("%w: the last commits are not known to be on the device", ErrReadOnly)

// errNoName is the error of Open and Checkpoint for an empty name.
var errNoName = base.Invalid("the name of the directory is empty")

// errNoFunction is the error of View, Update and their variants for a nil function.
var errNoFunction = base.Invalid("the function is nil")

const (
	// MaxKeySize is the length of the longest key in bytes: 65,536, which is 64 KiB.
	// The shortest key has one byte.
	MaxKeySize = base.UserKeyMax
	// MaxValueSize is the length of the longest value in bytes: 4,294,967,295, which
	// is 4 GiB less one byte.
	MaxValueSize = base.MaxValueSize
)
