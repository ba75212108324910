package transaction

import (
	"errors"
	"time"

	"github.com/stoatdb/stoat/internal/base"
)

const (
	// backoffFirst bounds the wait before the second attempt. The bound doubles with each
	// more attempt, up to backoffMax.
	backoffFirst = 250 * time.Microsecond
	backoffMax   = 50 * time.Millisecond
)

// backoff returns how long to wait after that many failed attempts, by a random number. It
// draws evenly from nothing to a bound that doubles, so transactions that met once do not
// meet again.
func backoff(failed int, random uint64) time.Duration {
	bound := backoffMax
	if doublings := failed - 1; doublings < 8 {
		bound = min(backoffFirst<<doublings, backoffMax)
	}
	return time.Duration(random % uint64(bound))
}

// retry calls attempt until its commit meets no conflict, and at most retries times more
// than once. It returns the last error. Before each further attempt it calls wait with the
// number of attempts that failed. An error of wait ends it.
func retry(retries int, wait func(failed int) error, attempt func() error) error {
	for failed := 1; ; failed++ {
		err := attempt()
		if failed > retries || !errors.Is(err, base.ErrConflict) || errors.Is(err, base.ErrFailed) {
			return err
		}
		if e := wait(failed); e != nil {
			return e
		}
	}
}
