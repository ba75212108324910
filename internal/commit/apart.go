package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// apartMin is the number of bytes of large values from which a commit writes them
	// once, straight to value files. Below that, the syncs of a file cost more than
	// writing twice: to the log, and by a flush to a value file. See decision 0009.
	apartMin = 2 << 20
	// heldMax and heldPart bound the bytes in value files of commits to which one
	// memtable may refer: to heldMax full memtables. While values are replaced, the bound
	// is all values divided by heldPart, and at least half a memtable. Only a flush shows
	// that the replaced values are garbage.
	heldMax  = 4
	heldPart = 32
)

// ApartMin returns apartMin for memtables of a size: a database of small ones
// writes to value files what would be a quarter of one.
func ApartMin(memtableSize int64) int64 { return min(apartMin, memtableSize/4) }

// heldFull reports whether a memtable that refers to held bytes of value files
// is to be flushed.
func (c *Committer) heldFull(held int64) bool {
	return heldFullOf(held, c.o.MemtableSize, c.throttle.Replacing(), func() (all uint64) {
		for _, f := range c.store.View().Tree.Version.Values {
			all += f.Bytes
		}
		return all
	})
}

// heldFullOf is heldFull, given the part of values that replace others and a
// function that adds up the bytes of all value files.
func heldFullOf(held, memtableSize int64, replacing float64, all func() uint64) bool {
	if held > heldMax*memtableSize {
		return true
	}
	replaced := replacing * float64(held)
	return replaced > float64(memtableSize/2) && replaced > float64(all()/heldPart)
}

// Held is the value files that commits have written, until the tables tell what is live
// in them.
//
// Such a file is whole, sealed and known to the manifest before the log gets the
// pointers into it. So a pointer never leads to what a crash has taken, and a file
// whose commit failed is garbage like any other.
type Held struct {
	mu lock.Mutex[lock.Held]
	// files has for each file the transaction whose pointers lead there, 0 while it is
	// under way. A file stays here for as long as it exists. While one job looks at the
	// state after a flush, another may look at the state before it. Guarded by mu.
	files map[base.FileNum]base.SeqNum
	// kept is the version from which on the log keeps commits for feeds, with their
	// files. 0 means that it keeps none.
	kept atomic.Uint64
}

// keepFrom makes the files of commits from seq on stay for feeds.
func (h *Held) keepFrom(seq base.SeqNum) { h.kept.Store(uint64(seq)) }

// keptFrom returns the version from which on the files of commits stay for feeds.
func (h *Held) keptFrom() base.SeqNum {
	if kept := base.SeqNum(h.kept.Load()); kept > 0 && !mutant.On(mutant.FeedLoseValues) {
		return kept
	}
	return base.SeqNumMax
}

// Kept reports whether a value file stays for feeds.
func (h *Held) Kept(n base.FileNum) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq, ok := h.files[n]
	return ok && seq >= h.keptFrom()
}

// hold notes that a transaction refers to a file. It reports whether the file is new here.
func (h *Held) hold(n base.FileNum, seq base.SeqNum) (fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files == nil {
		h.files = map[base.FileNum]base.SeqNum{}
	}
	before, known := h.files[n]
	h.files[n] = max(before, seq)
	return !known
}

// Forget lets go of files whose transaction has failed, or that were dropped.
func (h *Held) Forget(files ...base.FileNum) {
	if len(files) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range files {
		delete(h.files, n)
	}
}

// Holds reports whether memtables, commits under way or feeds may refer to a value file.
// Everything up to flushed is in tables.
func (h *Held) Holds(v *manifest.ValueFile, flushed base.SeqNum) bool {
	return (v.LastSeq > flushed || h.holds(v.Num, flushed)) && !mutant.On(mutant.CollectHeld)
}

// holds reports whether memtables, a transaction under way, or commits that are kept
// for feeds refer to a file.
func (h *Held) holds(n base.FileNum, flushed base.SeqNum) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq, ok := h.files[n]
	return ok && (seq == 0 || seq > flushed || seq >= h.keptFrom())
}

// checks is what a request needs before it joins the queue.
type checks struct {
	admit     int64 // bytes of the disk, if it adds anything
	adds      bool
	yields    bool // it only deletes: background jobs may go first
	validates bool // what it read must not have been written since
	apart     bool // it has values for value files
}

// checksOf decides what a request needs.
func checksOf(r *Request, apartMin int64) checks {
	w := r.writes
	if w == nil {
		return checks{}
	}
	n := checks{adds: w.Adds, yields: !w.Adds, validates: !w.Reads.Empty()}
	if n.adds {
		n.admit = r.takes(apartMin)
	}
	n.apart = len(w.Streams) > 0 || w.Large >= apartMin
	return n
}

// weighLarge counts the large values of a transaction without those that it has overwritten or
// deleted itself.
func (c *Committer) weighLarge(w *WriteSet) {
	if w == nil || w.Large == 0 || w.Pending.LiveLen() == w.Pending.Len() {
		return
	}
	rules := settings.Walk{Of: c.o.Settings}
	w.Large = 0
	for e := range w.Pending.Entries {
		if isLarge(&rules, &e) {
			w.Large += int64(len(e.Value))
		}
	}
}

// isLarge reports whether the value of an entry may go to a value file before the commit.
func isLarge(rules *settings.Walk, e *base.Entry) bool {
	return e.Meta.Kind == base.KindSet && int64(len(e.Value)) >= rules.At(e.Key).LargeValueThreshold
}

// prepare makes sure that there is room on the disk, and looks for conflicts. No other
// commit waits for that. The leader then checks only the commits since. prepare also
// writes the values that go to value files.
func (c *Committer) prepare(ctx context.Context, r *Request) (err error) {
	if err := c.Failed(); err != nil {
		return err
	}
	least := ApartMin(c.o.MemtableSize)
	c.weighLarge(r.writes)
	n := checksOf(r, least)
	if n.adds {
		if err := c.o.Space.Admit(ctx, n.admit); err != nil {
			return err
		}
		r.promised = n.admit
		defer func() {
			if err != nil {
				c.endPromise(r)
			}
		}()
	}
	if n.yields {
		if err := c.o.Space.Yield(ctx); err != nil {
			return err
		}
	}
	// The wait for room may have been long. A conflict with a commit of that time is
	// found here, before values are written to value files.
	upTo := c.store.Visible()
	if r.retried {
		upTo = c.store.Applied()
	}
	if n.validates && upTo > r.since {
		if err := c.validate(r); err != nil {
			return err
		}
		r.since = upTo
	}
	if !n.apart {
		return nil
	}
	err = c.placeApart(ctx, r, r.writes.Large >= least)
	c.o.Space.WriteFailed(err)
	return err
}

// placeApart makes values that lie in value files of their own a part of the database.
// These are the streams of a transaction, and its large values if large is set.
func (c *Committer) placeApart(ctx context.Context, r *Request, large bool) (err error) {
	w := r.writes
	bytes := int64(0)
	if large {
		bytes = w.Large
	}
	for _, s := range w.Streams {
		bytes += s.File.Size
	}
	if !c.o.Group.Enter() {
		return base.ErrClosed
	}
	defer c.o.Group.Leave()
	if err := c.throttle.AdmitApart(ctx, bytes); err != nil {
		return err
	}
	out := place.NewWriter(&c.o.Streams.Options)
	pending := w.Pending
	defer func() {
		if err == nil {
			return
		}
		if pending != w.Pending {
			pending.Release()
		}
		out.Abandon()
		err = fmt.Errorf("write values apart: %w", err)
	}()
	if large {
		if pending, err = c.writeApart(w.Pending, out); err != nil {
			return err
		}
	}
	files := out.Made()
	written := int64(0) // of what was promised, which streams are not
	for _, f := range files {
		written += f.Size
	}
	for _, s := range w.Streams {
		files = append(files, s.File)
	}
	c.throttle.Wrote(bytes)
	if err = c.installApart(r, files, large); err != nil {
		return err
	}
	c.took(r, written)
	for _, s := range w.Streams {
		s.Kept = true
	}
	r.moved = bytes
	c.Counts.ApartBytes.Add(r.apartBytes)
	if pending != w.Pending {
		w.Pending.Release()
		w.Pending = pending
	}
	return nil
}

// writeApart writes the large values of old to value files, in the order of their keys. It
// returns the same writes with pointers in their place. On an error it returns old.
func (c *Committer) writeApart(old *memtable.Table, out *place.Writer) (*memtable.Table, error) {
	large, err := c.writeLarge(old, out)
	if err != nil {
		return old, err
	}
	pending := c.store.Memory.NewPending()
	at := 0
	for e := range old.Entries {
		if len(large) > 0 && large[0].at == at {
			e.Value, e.Meta.Kind = large[0].pointer[:], base.KindPointer
			large = large[1:]
		}
		if err = pending.Set(e.Key, e.Value, base.Hash(e.Key, c.o.HashSeed), e.Meta, 0); err != nil {
			break
		}
		at++
	}
	invariant.Check(err != nil || len(large) == 0, "%d values have no entry", len(large))
	if err == nil {
		err = c.seal(out)
	}
	if err != nil {
		pending.Release()
		return old, err
	}
	return pending, nil
}

// A largeValue is a value that lies in a value file before its commit.
type largeValue struct {
	base.Entry
	at      int // among the entries of the transaction
	pointer [values.PointerSize]byte
}

// writeLarge writes the large values of a table in the order of their keys, as a scan will
// read them. It returns them in the order of the table's entries. Only writeLarge decides
// which values are large: a moment later, a keyspace may have other settings.
func (c *Committer) writeLarge(table *memtable.Table, out *place.Writer) ([]largeValue, error) {
	var large []largeValue
	rules := settings.Walk{Of: c.o.Settings}
	at := 0
	for e := range table.Entries {
		if isLarge(&rules, &e) {
			large = append(large, largeValue{Entry: e, at: at})
		}
		at++
	}
	slices.SortFunc(large, func(a, b largeValue) int { return bytes.Compare(a.Key, b.Key) })
	for i := range large {
		l := &large[i]
		// The version is not known yet. A file of one transaction has each key once, so the
		// key identifies the record.
		if _, err := out.Append(&l.Entry, 0); err != nil {
			return nil, err
		}
		copy(l.pointer[:], l.Value)
	}
	if mutant.On(mutant.LargeTrades) && len(large) > 1 {
		large[0].pointer, large[1].pointer = large[1].pointer, large[0].pointer
	}
	slices.SortFunc(large, func(a, b largeValue) int { return a.at - b.at })
	return large, nil
}

// seal finishes the last file and makes the names of all durable. Both wait for
// the device, side by side.
func (c *Committer) seal(out *place.Writer) error {
	var sealed, named error
	c.o.Executor.Parallel(
		func() { sealed = out.Finish() },
		func() { named = c.store.SyncNames() },
	)
	err := errors.Join(sealed, named)
	if errors.Is(err, vfs.ErrNamesLost) {
		err = c.Fail(err)
	}
	return err
}

// installApart makes files a part of the database, whose names may be durable, and
// holds them for r.
func (c *Committer) installApart(r *Request, files []*manifest.ValueFile, named bool) error {
	for _, f := range files {
		c.Held.hold(f.Num, 0)
		r.apart = append(r.apart, f.Num)
		r.apartBytes += f.Size
	}
	edit := manifest.Edit{AddValues: files}
	var err error
	if named {
		err = c.store.InstallNamed(edit)
	} else {
		err = c.store.Install(edit, nil)
	}
	if err == nil {
		return nil
	}
	if c.store.EditErr() != nil {
		c.JobFailed(err)
		err = base.Failed(err)
	}
	c.Held.Forget(r.apart...)
	r.apart, r.apartBytes = nil, 0
	return err
}

// settle gives up the value files of a transaction that was not applied: they are
// garbage, which collection frees. After a failure of the log it is unknown whether the
// transaction was applied, and they stay.
func (c *Committer) settle(r *Request) {
	c.endPromise(r)
	for _, n := range r.apart {
		switch {
		case r.seq != 0:
			c.Held.hold(n, r.seq)
			if c.store.State().FlushedSeq >= r.seq {
				c.o.Collect() // when the flush did, the file was held yet
			}
		case c.Failed() == nil:
			c.Held.Forget(n)
			c.o.Collect()
		}
	}
	r.apart = nil
}

// HeldByActive returns how many bytes of value files the active memtable refers to
// that commits have written.
func (c *Committer) HeldByActive() int64 { return c.heldByActive.Load() }
