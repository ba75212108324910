package commit

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/turns"
)

// A Done is told the outcome of an async request: the version of its writes, or the
// error. The version is 0 if there is an error, or nothing was written.
type Done func(version base.SeqNum, err error)

// A signal wakes the goroutine that waits for a request.
type signal uint8

const (
	signalDone signal = iota + 1 // the request has its outcome
	signalLead                   // the waiter is to lead the next group
)

// A Request is a commit in the pipeline, or, without writes, a DB.Sync.
type Request struct {
	writes *WriteSet
	since  base.SeqNum // the snapshot, or a later version up to which there is no conflict
	sync   bool

	// Guarded by Committer.mu: whether the request waits in the queue, and whether
	// its waiter was called upon to lead. An async request has no waiter: the
	// goroutine that leads in its place takes what it finds at the head of the
	// queue.
	queued, leading bool

	// slot is the snapshot of a transaction that read nothing. It ends before the
	// waiting begins. Otherwise flushed memtables would stay for as long as commits
	// wait for memory.
	slot *state.Slot

	apart      []base.FileNum // value files that hold what it wrote
	apartBytes int64          // their size
	moved      int64          // bytes of values that went there
	promised   int64          // bytes of the disk, see space.Reserve
	waiting    int64          // size when it joined the queue; a large table leaves when applied
	held       int64          // memory when an async request joined the queue

	// retried says that the transaction runs again after a conflict. It is told the
	// conflict at once, and lost is what another commit wrote of what it had read.
	retried bool
	lost    *turns.Claim

	// numbered, if it is not nil, is told the version before a reader sees it.
	numbered func(seq base.SeqNum)

	seq  base.SeqNum // the outcome
	err  error
	done Done   // of an async request, in place of ready
	end  func() // of an async request: ends its transaction
	// ready has room for one signal, so that its sender waits at most for the goroutine of the
	// request to take an earlier one.
	ready chan signal
}

// Request returns the request of a transaction that read at since. The request is
// a part of w.
func (w *WriteSet) Request(since base.SeqNum, sync bool) *Request {
	r := &w.request
	*r = Request{writes: w, since: since, sync: sync, ready: r.ready}
	return r
}

// Numbered makes the leader tell fn the version of the commit before a reader sees it.
func (r *Request) Numbered(fn func(seq base.SeqNum)) { r.numbered = fn }

// SyncRequest returns a request that makes everything committed before durable.
func SyncRequest() *Request { return &Request{sync: true, ready: make(chan signal, 1)} }

// Seq returns the version of the writes of a commit that has succeeded.
func (r *Request) Seq() base.SeqNum { return r.seq }

// applied reports whether the writes of r are in the memtable and in the log.
func (r *Request) applied() bool { return r.seq != 0 }

// Retried makes the commit tell a conflict as soon as it is known, even if the commit that
// it conflicts with is not visible yet. The transaction will run again.
func (r *Request) Retried() { r.retried = true }

// Lost returns what another commit wrote, after a conflict of a request with Retried. It is nil
// if that is not known.
func (r *Request) Lost() *turns.Claim { return r.lost }

// onlyAwaits reports whether r only waits for the groups before it; see AwaitVisible.
func (r *Request) onlyAwaits() bool { return r.writes == nil && !r.sync }

// isSync reports whether r is a DB.Sync.
func (r *Request) isSync() bool { return r.writes == nil && r.sync }

// Sync reports whether the commit waits for the device.
func (r *Request) Sync() bool { return r.sync }

// TakeSlot takes over the slot of the transaction if the transaction read nothing: then no
// conflict check asks what was written since. Partial entries bear the time of the
// transaction. So they need its slot until they are in a memtable: the expiry horizon must
// not pass that time before.
func (r *Request) TakeSlot(slot **state.Slot) {
	if r.writes.Reads.Empty() && !r.writes.Partial {
		r.slot, *slot = *slot, nil
	}
}

// releaseSlot ends the snapshot that TakeSlot took over.
func (c *Committer) releaseSlot(r *Request) {
	if r.slot != nil {
		c.store.Release(r.slot)
		r.slot = nil
	}
}

// size is what a request will take in the log at most, in bytes.
func (r *Request) size() int64 {
	if r.writes == nil {
		return 0
	}
	p := r.writes.Pending
	return payload.HeaderSize + p.DataBytes() + int64(p.LiveLen())*payload.EntryOverheadMax
}

// memory is about how much memory an async request holds that has joined the queue, in bytes.
func (r *Request) memory() int64 {
	bytes := r.waiting + requestBytes
	if r.writes != nil {
		bytes += r.writes.Reads.Bytes()
	}
	return bytes
}

// takes returns how many bytes of the disk a transaction may take at most until its data is
// in tables. It counts the log, the flush of the memtable, and the unused parts of segments
// and tables. Values that it writes to value files are in none of these, but a job may have
// to copy them one day.
func (r *Request) takes(apartMin int64) int64 {
	apart := r.writes.Large
	if apart < apartMin {
		apart = 0
	}
	return 3*max(0, r.size()-apart) + 2*apart
}

// removeLocked takes r out of the queue if it is still there. The caller holds mu.
func (c *Committer) removeLocked(r *Request) bool {
	if !r.queued {
		return false
	}
	r.queued = false
	i := slices.Index(c.queue, r)
	c.queue = slices.Delete(c.queue, i, i+1)
	c.queueBytes -= r.waiting
	return true
}

// endPromise ends the promise of space to a request. What it brought is in the
// log and in a memtable, and counts as such, or it has failed.
func (c *Committer) endPromise(r *Request) { c.took(r, r.promised) }

// took notes that a request has that many of the promised bytes on the disk.
func (c *Committer) took(r *Request, bytes int64) {
	bytes = min(bytes, r.promised)
	c.o.Space.Taken(bytes)
	r.promised -= bytes
}
