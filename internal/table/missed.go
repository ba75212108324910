package table

import "math/bits"

const (
	// missedPart is the size of a part of the file, in bytes. When single reads have fetched
	// as many pieces as the file has such parts, the table counts as missed. It does so again
	// after twice as many, four times as many, and so on: there may have been no memory to
	// load it. If the page cache holds the whole file, a mapping of Linux fetches at least
	// twice as much at once, so the table never counts as missed. Linux before 5.14 counts
	// these pieces, too.
	missedPart = 64 << 10
	// missedMin is the least number of pieces.
	missedMin = 4
)

// lookUp is populate for a piece that a single read looks up. It counts the piece if it was
// not in memory.
func (r *Reader) lookUp(off, n int64) error {
	brought, err := r.m.Populate(off, n)
	r.gauge.Add(brought, r.sumsOff())
	if brought > 0 && r.opts.Missed != nil {
		n, parts := r.misses.Add(1), max(missedMin, r.sumsOff()/missedPart)
		if n%parts == 0 && bits.OnesCount64(uint64(n/parts)) == 1 && !r.missed.Swap(true) {
			r.opts.Missed()
		}
	}
	return err
}

// TakeMissed reports whether the table has begun to count as missed since the last call.
func (r *Reader) TakeMissed() bool { return r.missed.Swap(false) }
