package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// apartMin is the number of bytes of large values from which a commit writes them
// once, straight to value files. Below that, the syncs of a file cost more than
// writing twice: to the log, and by a flush to a value file. See decision 0009.
const apartMin = 2 << 20

// ApartMin returns apartMin for memtables of a size: a database of small ones
// writes to value files what would be a quarter of one.
func ApartMin(memtableSize int64) int64 { return min(apartMin, memtableSize/4) }

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
