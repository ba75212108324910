package work

import "time"

// began is where Now begins.
var began = time.Now()

// Now returns nanoseconds of a monotonic clock. Throttling and waiting use it,
// because the clock of the machine may be set back. It is never 0.
func Now() int64 { return int64(time.Since(began)) + 1 }
