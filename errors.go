package stoat

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// The errors callers branch on, by errors.Is.
var (
	// ErrNotFound says that the key has no value in this snapshot.
	ErrNotFound = errors.New("stoat: key not found")

	// ErrConflict says that a transaction could not commit because another
	// one, committed since it began, changed something it had read. Nothing
	// was written; run it again.
	ErrConflict = base.ErrConflict

	// ErrClosed says that the database is closed.
	ErrClosed = base.ErrClosed

	// ErrTxnDone says that the transaction has been committed or discarded,
	// or the iterator closed.
	ErrTxnDone = errors.New("stoat: transaction has ended")

	// ErrReadOnly says that a write was tried in a read-only transaction or
	// database.
	ErrReadOnly = errors.New("stoat: read-only")

	// ErrLocked says that another open holds the database, in this process
	// or in another one. It has to be closed first, or its process to end; with
	// ReadOnly in the options of both they may share it.
	ErrLocked = vfs.ErrLocked

	// ErrNoSpace says that the disk is full, or so nearly that only deleting is
	// possible: what is left is what giving space back takes. Nothing was lost; the
	// write can be tried again when there is space.
	ErrNoSpace = vfs.ErrNoSpace

	// ErrCorrupt says that stored bytes are not what was written. The text
	// names file, offset, what was read and what was expected.
	ErrCorrupt = base.ErrCorrupt

	// ErrFailed says that the database takes no more writes, because one to the log
	// or to the manifest has failed: what of it is on the disk, nobody knows. The
	// error that it comes with tells why. Reading goes on. Close the database and
	// open it again: everything that was committed as Synced before is there, and a
	// transaction whose commit got this error is there as a whole, or not at all.
	ErrFailed = base.ErrFailed

	// ErrVersion says that the database was written by a later version of stoat,
	// in a format that this one does not know.
	ErrVersion = base.ErrVersion

	// ErrInvalid says that an argument or an option is none that there is, such as
	// no function, an unknown mode, or a size out of range. The text names it.
	// Nothing was done.
	ErrInvalid = errors.New("stoat: invalid argument")

	// ErrEmptyKey says that a key of no bytes was given.
	ErrEmptyKey = errors.New("stoat: empty key")

	// ErrKeyTooLarge says that a key is longer than MaxKeySize, 64 KiB.
	ErrKeyTooLarge = errors.New("stoat: key too large")

	// ErrValueTooLarge says that a value is longer than MaxValueSize, 4 GiB less
	// one byte.
	ErrValueTooLarge = errors.New("stoat: value too large")
)

// errUnproven is what Sync says of a read-only database.
var errUnproven = fmt.Errorf("%w: the end of the log is not known to be on the device", ErrReadOnly)

// errNoName is what Open and Checkpoint say of an empty name.
var errNoName = invalid("the name of the directory is empty")

// errNoFunction is what View, Update and those like them say of a nil function.
var errNoFunction = invalid("the function is nil")

// invalid returns ErrInvalid, and why.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// The bounds of keys and values, in bytes: 64 KiB, and 4 GiB less one byte. A key
// has one byte at least.
const (
	MaxKeySize   = base.MaxKeySize   // 65,536
	MaxValueSize = base.MaxValueSize // 4,294,967,295
)
