package values

import (
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/fault"
)

const (
	// readaheadMin and readaheadMax are how many bytes a readahead may be before the
	// scan. It begins with the least, and doubles it at each start.
	readaheadMin = 1 << 20
	readaheadMax = 4 << 20
	// readaheadLead is the number of bytes that it leaves to the scan when the scan
	// has caught up. Each then verifies a part of the file.
	readaheadLead = 128 << 10
)

// A readahead fetches and verifies the records ahead of a scan in file order, on a
// goroutine of its own. The scan then finds them verified. It only improves speed: the
// scan verifies a record that the readahead has not reached, and reports its damage.
// The zero value is ready.
type readahead struct {
	v     *view // the file of the last round
	next  int64 // end of the records of the last round
	ahead int64 // how far before the scan the goroutine may be, 0 if the scan is not in order

	started bool         // a goroutine may run
	until   atomic.Int64 // where the goroutine ends
	running atomic.Bool
	stopped atomic.Bool
	ended   sync.WaitGroup
}

// round tells of the records of a round, which reads has in the order of the scan, and of
// which missing are not verified. A second round in file order starts the goroutine, if
// there is another processor for it.
func (ra *readahead) round(reads []aheadRead, missing int, processors func() int) {
	if missing == 0 && ra.ahead == 0 {
		ra.v = nil // a scan of verified records needs none, and short ones are many
		return
	}
	first, last := edges(reads)
	if last == nil || last.v.sealed != nil {
		ra.v, ra.ahead = nil, 0
		return
	}
	inOrder := first.v == last.v && last.v == ra.v && first.at >= ra.next && first.at-ra.next <= prefetchGap
	if last.v != ra.v {
		ra.stop() // it is in another file
	}
	ra.v, ra.next = last.v, last.at+last.length
	if !inOrder {
		ra.ahead = 0
		return
	}
	ra.until.Store(min(ra.next+ra.ahead, ra.v.end))
	if missing == 0 || ra.running.Load() || ra.next >= ra.v.end || processors() < 2 {
		return
	}
	ra.ahead = min(max(2*ra.ahead, readaheadMin), readaheadMax)
	ra.until.Store(min(ra.next+ra.ahead, ra.v.end))
	ra.started = true
	ra.running.Store(true)
	r, v, at := last.v.r, last.v, first.at
	ra.ended.Go(func() {
		defer ra.running.Store(false)
		// A scan that meets the same error reports it.
		_ = fault.Guard(func() error { return ra.verify(r, v, at) })
	})
}

// edges returns the first and the last of the reads that have a place in a file.
func edges(reads []aheadRead) (first, last *aheadRead) {
	for i := range reads {
		if x := &reads[i]; x.at != 0 {
			if last = x; first == nil {
				first = x
			}
		}
	}
	return first, last
}

// stop ends the goroutine and waits for it. The file may be unmapped afterwards.
func (ra *readahead) stop() {
	ra.v, ra.next, ra.ahead = nil, 0, 0
	if !ra.started {
		return
	}
	ra.stopped.Store(true)
	ra.ended.Wait()
	ra.stopped.Store(false)
	ra.started = false
}

// verify fetches and verifies the records from offset at on, until it is far enough before
// the scan. It ends at a damaged record, and at a chunked one, which is read in parts.
func (ra *readahead) verify(r *Reader, v *view, at int64) error {
	fetched, skip := at, at+readaheadLead
	for at < ra.until.Load() && !ra.stopped.Load() {
		if scan := r.next.Load(); scan >= at && scan < v.end {
			at, skip = scan, scan+readaheadLead
		}
		h, err := r.fetchAhead(v, at, &fetched)
		if err != nil || h.chunked() {
			return err
		}
		if at >= skip && !v.marks.has(at) {
			if err := h.checkRecord(r.salt, at, v.data[at:at+h.size()]); err != nil {
				return err
			}
			v.marks.set(at)
		}
		at += h.size()
	}
	return nil
}

// fetchAhead returns the header of the record at offset at. Unless it is chunked, all of it
// has been read from the file. fetched is the end of what the goroutine has read before.
func (r *Reader) fetchAhead(v *view, at int64, fetched *int64) (h header, err error) {
	need := at + headerSize
	for range 2 {
		if from := max(at, *fetched); need > from {
			n := min(max(fetchAhead, need-from), v.end-from)
			brought, err := v.m.Populate(from, n)
			if r.gauge.Add(brought, v.end); err != nil {
				return h, err
			}
			*fetched = from + n
		}
		if h, err = decodeHeader(v.data[at:v.end], at, v.end); err != nil {
			return h, err
		}
		if h.chunked() {
			return h, nil // it is read in parts, and may be large
		}
		need = at + h.size()
	}
	return h, nil
}
