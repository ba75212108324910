package stoat

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/partial"
)

// A MergeFunction makes values of operands, which Txn.Merge writes. Package merge has
// ready ones.
//
// The methods must be pure: the same arguments give the same result, at any time and in
// any order of calls. Several goroutines call them at the same time, readers and
// background jobs. Commits may wait for them. A function that returns an error or
// panics makes reads of the key fail with ErrMerge, and no operand is lost. It must not end its
// goroutine, as testing.T.FailNow does: that would also end a background job.
type MergeFunction interface {
	// Name names the function. A database finds its function by the name, so the name of
	// a function must change when its operands get another meaning. It must not be "none".
	Name() string
	// Merge appends to dst what operands, the oldest first, make of the existing value of
	// key, and returns the result. There is at least one operand. A nil existing means
	// that there is no value. Merge must neither keep nor change its other arguments.
	Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error)
}

// An OperandCombiner is a MergeFunction whose operands can be merged with each other.
// Operands of one transaction for one key then become one.
type OperandCombiner interface {
	MergeFunction
	// Combine appends to dst one operand that does the same as operands, the oldest
	// first. If that would be longer than MaxOperandSize, the operands stay as they are.
	Combine(dst, key []byte, operands [][]byte) ([]byte, error)
}

var (
	// ErrNoMergeFunction says that the merge function of a key is not registered in
	// Options.MergeFunctions, or that none is set. The text tells. Stored operands stay: with
	// the function, the key can be read again. If Merge returns the error, it wrote nothing.
	ErrNoMergeFunction = partial.ErrNoFunction

	// ErrMerge says that a merge function returned an error or panicked. It wraps that
	// error.
	ErrMerge = partial.ErrFunction

	// ErrOperandTooLarge says that an operand is longer than MaxOperandSize, 64 KiB.
	ErrOperandTooLarge = base.ErrOperandTooLarge
)

// MaxOperandSize is the length of the longest operand in bytes: 65,536, which is 64 KiB.
const MaxOperandSize = base.MaxOperandSize

// Merge writes an operand for key. A later read of the key applies Options.MergeFunction to the
// older value and all operands since. Without a registered function, Merge returns
// ErrNoMergeFunction and writes nothing. It copies key and operand, so the caller may reuse them
// at once.
//
// Merge reads nothing, so operands of several transactions for one key are no conflict. For
// a transaction that read the key, the operand is a write like any other. A transaction
// reads the key when it writes more than 64 operands for it, or more than 128 KiB of them.
// With an OperandCombiner, their number does not matter, and only what Combine leaves counts.
// If the value that it read expires before the commit, the commit returns ErrConflict. The
// same holds for a value that the transaction has set itself, and then merges into.
//
// The value keeps its expiry time and its UserMeta. If the key has no value when the
// transaction commits, or an expired value, the function starts from nothing.
// The result then never expires, whatever the DefaultTTL is.
func (tx Txn) Merge(key, operand []byte) error { return tx.t.Merge(key, operand) }

// Renew gives the value of key a new expiry time, TTL or ExpiresAt, without writing
// the value again. With any other option, Renew returns ErrInvalid. If key has no value when
// the transaction commits, or an expired value, Renew does nothing.
//
// Renew reads nothing, so it is no conflict with other writes of the key. For a
// transaction that read the key, it is a write like any other. If the transaction has set
// the value itself, with an expiry time that passes before the commit, the commit returns
// ErrConflict.
func (tx Txn) Renew(key []byte, expiry SetOption) error {
	return tx.t.Renew(key, metadata([]SetOption{expiry}))
}
