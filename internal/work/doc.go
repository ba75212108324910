// Package work runs background jobs. It has workers that wait for work, and an executor
// that decides how jobs run. It also has a lock that is fair between jobs, and the load of
// the database.
//
// It knows nothing of what the jobs do.
package work

import "time"

// began is where Now begins.
var began = time.Now()

// Now returns nanoseconds of a monotonic clock. Throttling and waiting use it,
// because the clock of the machine may be set back. It is never 0.
func Now() int64 { return int64(time.Since(began)) + 1 }
