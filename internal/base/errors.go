package base

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrCorrupt marks every error that says that stored bytes differ from what was
// written.
var ErrCorrupt = errors.New("stoat: corrupt data")

// ErrVersion marks every error that says that a later version of stoat wrote a
// file, in a format that this version does not know. The file is not damaged.
var ErrVersion = errors.New("stoat: database of a later version")

// ErrKey marks every error that says that the keys of the program do not fit the database.
// A key is missing or wrong, or the database is not encrypted.
var ErrKey = errors.New("stoat: encryption key")

// A CorruptionError tells where stored bytes are wrong. errors.Is(err,
// ErrCorrupt) holds for it.
type CorruptionError struct {
	// File is the name of the file. It is empty until a layer that knows it
	// calls InFile.
	File string
	// Offset is the place of the damage in the file in bytes, or -1 if unknown.
	Offset int64
	// What names the damaged thing: "record checksum", "segment header".
	What string
	// Got and Want are the observed and the expected value, as text. Either may
	// be empty.
	Got, Want string
}

// Error formats the file, the offset, the damaged thing, and got and want.
func (e *CorruptionError) Error() string {
	s := "stoat: corrupt data"
	if e.File != "" {
		s += " in " + e.File
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(" at offset %d", e.Offset)
	}
	s += ": " + e.What
	if e.Got != "" || e.Want != "" {
		s += fmt.Sprintf(": got %s, want %s", e.Got, e.Want)
	}
	return s
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }

// Corrupt returns a CorruptionError without a file name. A layer above may add
// the name with InFile.
func Corrupt(offset int64, what string, got, want any) *CorruptionError {
	return &CorruptionError{Offset: offset, What: what, Got: fmt.Sprint(got), Want: fmt.Sprint(want)}
}

// InFile sets the file name of a CorruptionError inside err that has none, and
// returns err.
func InFile(err error, name string) error {
	var c *CorruptionError
	if errors.As(err, &c) && c.File == "" {
		c.File = name
	}
	return err
}

// ErrTimestampDiscarded says that a timestamp is below the discard point of its
// keyspace.
var ErrTimestampDiscarded = errors.New("stoat: timestamp was discarded")

// ErrNoKeyspace says that a keyspace does not exist, or not any more.
var ErrNoKeyspace = errors.New("stoat: no such keyspace")

var (
	// ErrClosed says that the database is closed.
	ErrClosed = errors.New("stoat: database is closed")

	// ErrConflict says that a transaction read what another one changed since.
	ErrConflict = errors.New("stoat: transaction conflict")

	// ErrFailed says that the database takes no more writes.
	ErrFailed = errors.New("stoat: database takes no more writes")

	// ErrNotFound says that a key has no value in a snapshot.
	ErrNotFound = errors.New("stoat: key not found")

	// ErrTxnDone says that a transaction or an iterator has ended.
	ErrTxnDone = errors.New("stoat: transaction has ended")

	// ErrStale says that a follower cannot follow its database any more.
	ErrStale = errors.New("stoat: the follower cannot follow the database")
	// ErrReadOnly says that a transaction or a database takes no writes.
	ErrReadOnly = errors.New("stoat: read-only")

	// ErrInvalid marks every error that says that an argument has no meaning.
	ErrInvalid = errors.New("stoat: invalid argument")

	// ErrEmptyKey says that a key is empty.
	ErrEmptyKey = errors.New("stoat: empty key")

	// ErrKeyTooLarge says that a key is longer than UserKeyMax.
	ErrKeyTooLarge = errors.New("stoat: key too large")

	// ErrValueTooLarge says that a value is longer than MaxValueSize.
	ErrValueTooLarge = errors.New("stoat: value too large")

	// ErrBatchTooLarge says that a batch in one piece exceeds its size.
	ErrBatchTooLarge = errors.New("stoat: batch too large")

	// ErrSnapshotExpired says that a snapshot has reached its greatest age.
	ErrSnapshotExpired = errors.New("stoat: snapshot expired")

	// ErrOperandTooLarge says that an operand is longer than MaxOperandSize.
	ErrOperandTooLarge = errors.New("stoat: operand too large")
)

// Invalid returns ErrInvalid with a reason.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// A KeyOrderError says that a key of sorted input is not greater than the one before it.
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
func (e *KeyOrderError) Error() string {
	what := "comes after the greater key"
	if bytes.Equal(e.Key, e.Previous) {
		if e.Timestamp > e.PreviousTimestamp {
			return fmt.Sprintf("%v: key %d of the input, %.80q, has the timestamp %d after the smaller one %d",
				ErrInvalid, e.Position, e.Key, e.Timestamp, e.PreviousTimestamp)
		}
		what = "repeats the key"
	}
	return fmt.Sprintf("%v: key %d of the input, %.80q, %s %.80q", ErrInvalid, e.Position, e.Key, what, e.Previous)
}

// Unwrap returns ErrInvalid.
func (e *KeyOrderError) Unwrap() error { return ErrInvalid }

// A LogGoneError says that the log does not have the next transaction any more.
type LogGoneError struct {
	// Oldest is a version after which the log has transactions.
	Oldest SeqNum
}

// Error describes the error.
func (LogGoneError) Error() string { return "the log does not have the next transaction" }
