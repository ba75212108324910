package values

import (
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
)

const (
	// readaheadMin and readaheadMax are how many bytes a readahead may be ahead of the scan, in
	// all files together. It begins with the least, and doubles it at each start. It reads
	// each file in pieces of fetchAhead, so it may read more than it verifies.
	readaheadMin = 1 << 20
	readaheadMax = 4 << 20

	// readaheadTurn is the number of bytes that it verifies in a file before the next file.
	readaheadTurn = fetchAhead

	// readaheadAsk is how many bytes of a file the device may be reading beyond a turn, at
	// most. A request has half as many bytes, or more: many small requests take the device
	// longer. After a short scan it is twice what the scan has read in the file, or two turns.
	readaheadAsk = 1 << 20

	// readaheadLead is the number of bytes that it leaves to the scan when the scan has
	// caught up, in all files together. Both then verify a part.
	readaheadLead = 128 << 10

	// readaheadRounds is how many rounds of unverified records come before a readahead.
	// Short scans need none.
	readaheadRounds = 2

	// laneCount is the number of files that a readahead follows at once. A file has one of
	// laneWays lanes, which its number tells.
	laneCount = 128
	laneWays  = 4

	// laneRest is the number of rounds without a record of a file after which the
	// readahead leaves the file.
	laneRest = 8
)

// A readahead fetches and verifies the records ahead of a scan, on a goroutine of its own.
// The scan then finds them verified. It only improves speed: the scan verifies a record that
// the readahead has not reached, and reports its damage.
//
// The values that a scan reads one after the other lie in several files, because each flush
// and each merge writes files of its own. Within a file they are in the order of their
// keys. So the readahead has a lane for each file, and works on the files in turn. The zero
// value is ready.
type readahead struct {
	unverified int // rounds in a row with unverified records, before there is a course

	started bool        // a goroutine may run
	running atomic.Bool // set by the scan, cleared by the goroutine
	stopped atomic.Bool
	ended   sync.WaitGroup

	mu      sync.Mutex // guards what follows, except that only the scan sets course
	*course            // nil before the scan needs it
}

// A course is what a readahead knows about a scan.
type course struct {
	lanes  [laneCount]lane
	rounds int
	ahead  int64 // how far ahead of the scan the goroutine may be, in bytes
	turn   int   // the lane that had the last turn
}

// A lane is a file of a readahead.
type lane struct {
	v       *view
	begun   int64 // where the scan began
	scan    int64 // end of the last record that the scan came to
	round   int   // of that record
	inOrder bool  // that record followed the one before it

	at      int64 // end of the last record that the readahead passed
	failed  bool  // there it met damage, or could not read
	fetched int64 // end of what it has read from the file
	skip    int64 // where it begins to verify
	asked   int64 // end of what the system was asked to read
}

// round tells of the records of a round, which reads has in the order of the scan, and of
// which missing are not verified. It starts the goroutine if the round goes on in most of its
// files where earlier rounds ended, and if there is another processor.
func (ra *readahead) round(reads []aheadRead, missing int, processors func() int) {
	if ra.course == nil {
		if missing == 0 {
			ra.unverified = 0
			return
		}
		if ra.unverified++; ra.unverified < readaheadRounds || processors() < 2 {
			return
		}
		ra.course = new(course)
	}
	if !ra.note(reads, missing) || ra.running.Load() {
		return
	}
	ra.started = true
	ra.running.Store(true)
	ra.ended.Go(func() {
		defer ra.running.Store(false)
		ra.run()
	})
}

// note notes where the scan is in each file. It returns whether the goroutine should run: the
// round goes on in most of its files, and missing of its records are not verified.
func (ra *readahead) note(reads []aheadRead, missing int) bool {
	ra.mu.Lock()
	defer ra.mu.Unlock()
	ra.rounds++
	files, goOn := 0, 0
	for i := range reads {
		x := &reads[i]
		if x.at == 0 || x.v.sealed != nil {
			continue
		}
		l := ra.lane(x.v)
		follows := x.at >= l.scan && x.at-l.scan <= prefetchGap
		if !follows {
			l.begun, l.at, l.fetched, l.asked = x.at, 0, 0, 0
		}
		if l.round < ra.rounds {
			files++
			if follows {
				goOn++
			}
		}
		l.scan, l.round, l.inOrder = x.at+x.length, ra.rounds, follows
	}
	if 2*goOn > files {
		if missing > 0 && !ra.running.Load() {
			ra.ahead = min(max(2*ra.ahead, readaheadMin), readaheadMax)
		}
		return missing > 0
	}
	ra.ahead = 0
	ra.rounds += laneRest // the scan is at another place, so all lanes rest
	return false
}

// lane returns the lane of a file. A file without one takes the lane that has rested for the
// longest time.
func (ra *readahead) lane(v *view) *lane {
	var oldest *lane
	for i := range base.FileNum(laneWays) {
		l := &ra.lanes[(v.num+i)%laneCount]
		if l.v == v {
			return l
		}
		if oldest == nil || l.round < oldest.round {
			oldest = l
		}
	}
	*oldest = lane{v: v}
	return oldest
}

// stop ends the goroutine and waits for it. The files may be unmapped afterwards.
func (ra *readahead) stop() {
	if ra.started {
		ra.stopped.Store(true)
		ra.ended.Wait()
		ra.stopped.Store(false)
		ra.started = false
	}
	ra.unverified, ra.course = 0, nil
}

// run gives the lanes their turns, until the readahead is far enough in all of them.
func (ra *readahead) run() {
	for !ra.stopped.Load() {
		l, until := ra.next()
		if l.v == nil {
			return
		}
		ra.passed(&l, fault.Guard(func() error { return ra.verify(&l, until) }))
	}
}

// passed takes over how far the readahead came in the lane that had the turn. A scan that
// meets the same error reports it. A lane that the scan has left meanwhile stays as it is.
func (ra *readahead) passed(l *lane, err error) {
	ra.mu.Lock()
	defer ra.mu.Unlock()
	if now := &ra.lanes[ra.turn]; now.v == l.v && now.scan >= l.scan {
		now.at, now.fetched, now.asked, now.failed = l.at, l.fetched, l.asked, err != nil
	}
}

// next returns a copy of the lane that has the next turn, and where that ends. The lane has
// no file if there is nothing to do.
func (ra *readahead) next() (l lane, until int64) {
	ra.mu.Lock()
	defer ra.mu.Unlock()
	n := int64(0)
	for i := range ra.lanes {
		if ra.follows(&ra.lanes[i]) {
			n++
		}
	}
	if n == 0 {
		return lane{}, 0
	}
	for range ra.lanes {
		ra.turn = (ra.turn + 1) % laneCount
		l := &ra.lanes[ra.turn]
		if !ra.follows(l) {
			continue
		}
		if l.at < l.scan {
			l.at, l.skip, l.failed = l.scan, l.scan+readaheadLead/n, false
		}
		if end := min(l.scan+ra.ahead/n, l.v.end); l.at < end && !l.failed {
			until = min(end, max(l.at, l.skip)+readaheadTurn)
			return *l, until
		}
	}
	return lane{}, 0
}

// follows returns whether the readahead follows the scan in a lane.
func (ra *readahead) follows(l *lane) bool {
	return l.inOrder && ra.rounds-l.round < laneRest
}

// request asks the system to read what comes after offset until, unless it was asked for half
// of that before. So the device works while the goroutine verifies.
func (l *lane) request(until int64) {
	n := min(max(2*(l.scan-l.begun), 2*readaheadTurn), readaheadAsk)
	if from := max(l.asked, l.at); from < min(until+n/2, l.v.end) {
		l.asked = min(until+n, l.v.end)
		_ = l.v.m.WillNeed(from, l.asked-from) // only a hint
	}
}

// verify fetches and verifies the records of a lane up to offset until. It passes over chunked
// records, which are read in parts and may be large.
func (ra *readahead) verify(l *lane, until int64) error {
	v := l.v
	l.request(until)
	for l.at < until && !ra.stopped.Load() {
		drops := v.drops.Load()
		h, err := v.r.fetchAhead(v, l.at, &l.fetched)
		if err != nil {
			return err
		}
		if !h.chunked() && l.at >= l.skip && !v.marks.has(l.at) {
			if err := h.checkRecord(v.r.salt, l.at, v.data[l.at:l.at+h.size()]); err != nil {
				return err
			}
			v.mark(l.at, drops)
		}
		l.at += h.size()
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
