package table

// loadStep is the number of bytes fetched by one system call. A longer call would
// keep the processor from other goroutines.
const loadStep = 4 << 20

// Load fetches and verifies the whole table, in a small part of the time that the
// first reads would need block by block. It is for a table that was just written, whose
// pages the system still has in memory, and for one that many reads have missed. It ends
// early, without an error, once stop returns true; nil never does.
func (r *Reader) Load(stop func() bool) error {
	if r.sealed != nil {
		r.sealed.Fill()
	}
	for from := int64(0); from < r.sumsOff(); from += loadStep {
		if r.crowded() || stop != nil && stop() {
			return nil
		}
		if err := r.populate(from, min(loadStep, r.sumsOff()-from)); err != nil {
			return err
		}
	}
	// From here on the memory governor must see the table as used.
	r.gauge.Touch()
	for b := range int(r.blocks) {
		if err := r.loadBlock(b); err != nil {
			return err
		}
	}
	for p := range r.hash.pages() {
		if !r.pagesOK.has(p) {
			if err := r.verifyPage(p, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reader) loadBlock(b int) error {
	if !r.keysOK.has(b) {
		if err := r.verifyKeys(b, false); err != nil {
			return err
		}
	}
	if r.valsOK.has(b) {
		return nil
	}
	v := r.viewVerified(b)
	return r.verifyValues(b, &v, false)
}
