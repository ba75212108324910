package base

import "errors"

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
