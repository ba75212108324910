package ingest

import (
	"errors"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/work"
)

const (
	// parcels is how many parcels a relay has.
	parcels = 4
	// parcelSize is about how many bytes of entries a parcel takes.
	parcelSize = 128 << 10
	// passedSize is about what an entry of a parcel takes beside its key and value, in bytes.
	passedSize = 32
	// lentMin is a length in bytes. A value of that length is lent to the goroutine of a
	// relay, which is faster than a copy.
	lentMin = 32 << 10
)

// A relay hands entries to a builder that runs on a goroutine of its own. So the caller
// reads and checks entries while others are encoded. Entries travel in parcels, whose
// number bounds the memory. An error of the builder is that of a later call, of finish at
// the latest. One goroutine uses a relay, and ends it with finish or abandon.
type relay struct {
	out     *compact.Builder // of run, until it has ended
	filling *parcel
	full    chan *parcel // nil once the goroutine has ended
	empty   chan *parcel // has room for all parcels
	ended   chan struct{}
	failed  atomic.Pointer[error] // the first error
}

// A parcel is entries on their way to a builder. They own the bytes, except for those of
// lent, which is the last one.
type parcel struct {
	bytes []byte // keys and values, one after the other
	items []passed
	lent  *base.Entry   // nil for none
	taken chan struct{} // closed when lent is not used any more
}

// A passed is an entry of a parcel.
type passed struct {
	key, value uint32 // lengths in bytes
	seq        base.SeqNum
	meta       base.Meta
}

// errAbandoned ends the goroutine of a relay whose caller has failed.
var errAbandoned = errors.New("ingest: abandoned")

// newRelay returns a relay to a builder. With a manual executor, it adds entries at once.
func newRelay(exec *work.Executor, out *compact.Builder) *relay {
	r := &relay{out: out}
	if exec.Manual {
		return r
	}
	r.filling, r.full, r.empty = new(parcel), make(chan *parcel, parcels), make(chan *parcel, parcels)
	for range parcels - 1 {
		r.empty <- new(parcel)
	}
	r.ended = make(chan struct{})
	full := r.full
	exec.Go(func() { r.run(full) })
	return r
}

// run adds the entries of parcels. After an error it only empties them.
func (r *relay) run(full <-chan *parcel) {
	defer close(r.ended)
	for p := range full {
		if r.failed.Load() == nil {
			// What the caller lends may lie in a mapped file.
			err := fault.Guard(func() error { return p.addTo(r.out) })
			if err != nil && !mutant.On(mutant.RelayLosesError) {
				r.failed.CompareAndSwap(nil, &err)
			}
		}
		if p.lent != nil {
			close(p.taken)
		}
		*p = parcel{bytes: p.bytes[:0], items: p.items[:0]}
		r.empty <- p
	}
}

// addTo adds the entries to a builder.
func (p *parcel) addTo(out *compact.Builder) error {
	var e base.Entry
	rest := p.bytes
	for i := range p.items {
		it := &p.items[i]
		key, after := rest[:it.key], rest[it.key:]
		e = base.Entry{Key: key, Value: after[:it.value], Seq: it.seq, Meta: it.meta}
		rest = after[it.value:]
		if err := out.Add(&e); err != nil {
			return err
		}
	}
	if p.lent == nil {
		return nil
	}
	return out.Add(p.lent)
}

// add adds an entry. The caller may reuse its memory.
func (r *relay) add(e *base.Entry) error {
	if r.full == nil {
		return r.out.Add(e)
	}
	if len(e.Value) >= lentMin {
		return r.lend(e)
	}
	p := r.filling
	p.bytes = append(append(p.bytes, e.Key...), e.Value...)
	p.items = append(p.items, passed{key: uint32(len(e.Key)), value: uint32(len(e.Value)), seq: e.Seq, meta: e.Meta})
	if len(p.bytes)+len(p.items)*passedSize < parcelSize {
		return nil
	}
	return r.send()
}

// lend adds an entry without a copy.
func (r *relay) lend(e *base.Entry) error {
	taken := make(chan struct{})
	r.filling.lent, r.filling.taken = e, taken
	_ = r.send() // its error is that of failure
	if !mutant.On(mutant.RelayBorrows) {
		<-taken
	}
	return r.failure()
}

// send hands the parcel that is being filled to the goroutine.
func (r *relay) send() error {
	r.full <- r.filling
	r.filling = <-r.empty
	return r.failure()
}

// failure returns the error of the builder so far.
func (r *relay) failure() error {
	if err := r.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// end ends the goroutine once it has added all entries.
func (r *relay) end() error {
	if r.full == nil {
		return r.failure()
	}
	if !mutant.On(mutant.RelayLosesLast) {
		r.full <- r.filling
	}
	close(r.full)
	<-r.ended
	r.full = nil
	return r.failure()
}

// finish adds what is on its way, and finishes the builder.
func (r *relay) finish() (compact.Result, error) {
	if err := r.end(); err != nil {
		return compact.Result{}, err
	}
	return r.out.Finish()
}

// abandon ends the goroutine, and abandons the builder.
func (r *relay) abandon() compact.Result {
	err := error(errAbandoned)
	r.failed.CompareAndSwap(nil, &err)
	_ = r.end() // the files are removed
	return r.out.Abandon()
}
