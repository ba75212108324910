package base

import "errors"

// The errors of the commit pipeline and of a closed database, which the root
// package exports.
var (
	// ErrClosed says that the database is closed.
	ErrClosed = errors.New("stoat: database is closed")
	// ErrConflict says that a transaction read what another one changed since.
	ErrConflict = errors.New("stoat: transaction conflict")
	// ErrFailed says that the database takes no more writes.
	ErrFailed = errors.New("stoat: database takes no more writes")
)

// Failed returns err as the reason for ErrFailed.
func Failed(err error) error {
	if errors.Is(err, ErrFailed) {
		return err
	}
	return &failure{err}
}

// A failure is ErrFailed with its reason.
type failure struct{ reason error }

func (f *failure) Error() string        { return ErrFailed.Error() + ": " + f.reason.Error() }
func (f *failure) Unwrap() error        { return f.reason }
func (f *failure) Is(target error) bool { return target == ErrFailed }
