package transaction

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
)

func TestBackoff_GrowsToABoundAndIsRandom(t *testing.T) {
	t.Parallel()
	for failed := 1; failed < 100; failed++ {
		bound := backoffMax
		if failed <= 8 {
			bound = min(backoffFirst<<(failed-1), backoffMax)
		}
		seen := map[time.Duration]bool{}
		for i := range uint64(1000) {
			p := backoff(failed, i*(math.MaxUint64/1000))
			if p < 0 || p >= bound {
				t.Fatalf("after %d failures the wait is %v, want less than %v", failed, p, bound)
			}
			seen[p] = true
		}
		if len(seen) < 900 {
			t.Errorf("after %d failures there are %d waits", failed, len(seen))
		}
	}
}

func TestRetry_EndsAsItsErrorsSay(t *testing.T) {
	t.Parallel()
	conflict, other := fmt.Errorf("commit: %w", base.ErrConflict), errors.New("other")
	for what, c := range map[string]struct {
		retries  int
		errs     []error // of the attempts; nil after the last
		attempts int
		want     error
	}{
		"no conflict":                  {5, nil, 1, nil},
		"two conflicts":                {5, []error{conflict, conflict}, 3, nil},
		"conflicts for good":           {2, []error{conflict, conflict, conflict, conflict}, 3, base.ErrConflict},
		"no retries":                   {0, []error{conflict}, 1, base.ErrConflict},
		"another error":                {5, []error{other}, 1, other},
		"another error later":          {5, []error{conflict, other}, 2, other},
		"a failure":                    {5, []error{base.ErrFailed}, 1, base.ErrFailed},
		"a failure after a conflict":   {5, []error{conflict, base.Failed(conflict)}, 2, base.ErrFailed},
		"a conflict beside a failure ": {5, []error{errors.Join(conflict, base.ErrFailed)}, 1, base.ErrFailed},
	} {
		n, waits := 0, 0
		err := retry(c.retries, func(failed int) error {
			if waits++; failed != n || waits != n {
				t.Errorf("%s: wait %d for %d failures of %d attempts", what, waits, failed, n)
			}
			return nil
		}, func() error {
			n++
			if n <= len(c.errs) {
				return c.errs[n-1]
			}
			return nil
		})
		if n != c.attempts || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %d attempts and %v, want %d and %v", what, n, err, c.attempts, c.want)
		}
	}
}

func TestRetry_EndsWithAnErrorOfTheWait(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	err := retry(math.MaxInt, func(failed int) error {
		if failed == 3 {
			return stopped
		}
		return nil
	}, func() error { return base.ErrConflict })
	if err != stopped {
		t.Errorf("%v, want the error of the wait", err)
	}
}
