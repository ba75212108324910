package table

const (
	// missedPart is the size of a part of the file, in bytes. When single reads have fetched
	// as many pieces as the file has such parts, the table counts as missed. If the page
	// cache holds the whole file, a mapping of Linux fetches at least twice as much at once,
	// so the table never counts as missed. Linux before 5.14 counts these pieces, too.
	missedPart = 64 << 10
	// missedMin is the least number of pieces.
	missedMin = 4
)

// lookUp is populate for a piece that a single read looks up. It counts the piece if it was
// not in memory.
func (r *Reader) lookUp(off, n int64) error {
	brought, err := r.m.Populate(off, n)
	r.gauge.Add(brought, r.sumsOff())
	if brought > 0 && r.opts.Missed != nil && r.misses.Add(1) == max(missedMin, r.sumsOff()/missedPart) {
		r.missed.Store(true)
		r.opts.Missed()
	}
	return err
}

// TakeMissed reports whether the table began to count as missed since the last call.
func (r *Reader) TakeMissed() bool { return r.missed.Swap(false) }
