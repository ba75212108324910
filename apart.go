package stoat

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/values"
)

// apartMin is how many bytes of large values a transaction must have for them
// to be written once, straight into value files, instead of first to the log and
// then, by a flush, to a value file. Below that, the syncs that a file of its
// own takes cost more than writing twice, see decision 0009. A database of small
// memtables writes apart what would be a quarter of one.
const apartMin = 2 << 20

// apartMax is how many memtables' worth of values that were written apart one
// memtable may refer to. What they replaced is found to be garbage only after
// it has been flushed: where values are replaced, they may be a thirtysecond of
// all, or half a memtable's worth in any case.
const (
	apartMax  = 4
	apartPart = 32
)

// apartFull reports whether a memtable that refers to so many bytes of values
// that were written apart is to be flushed, given those of all value files.
func (d *DB) apartFull(apart int64) bool {
	if apart > apartMax*d.opts.MemtableSize {
		return true
	}
	replaced := d.admission.gauge.replacing() * float64(apart)
	if replaced <= float64(d.opts.MemtableSize/2) {
		return false
	}
	all := uint64(0)
	for _, f := range d.view.Load().tree.Version.Values {
		all += f.Bytes
	}
	return replaced > float64(all/apartPart)
}

func (o *Options) apartMin() int64 { return min(apartMin, o.MemtableSize/4) }

// apart is the value files that commits have written, as long as the tables do
// not tell yet what is live in them.
//
// Such a file is whole, sealed and known to the manifest before the log gets
// the pointers into it. So a pointer never leads to what a crash has taken, and
// a file whose commit came to nothing is garbage like any other.
type apart struct {
	mu sync.Mutex
	// files tells for each file the transaction whose pointers lead there, 0
	// while it is under way. A file stays here for as long as it is there: while
	// one looks at the state after a flush, another may look at that before.
	files map[base.FileNum]base.SeqNum
}

// hold notes that a transaction refers to a file.
func (a *apart) hold(n base.FileNum, seq base.SeqNum) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files == nil {
		a.files = map[base.FileNum]base.SeqNum{}
	}
	a.files[n] = max(a.files[n], seq)
}

// forget lets go of a file whose transaction has failed, or that is dropped.
func (a *apart) forget(n base.FileNum) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.files, n)
}

// held reports whether memtables or a transaction under way refer to the file,
// in a state in which so much had been flushed.
func (a *apart) held(n base.FileNum, flushed base.SeqNum) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq, ok := a.files[n]
	return ok && (seq == 0 || seq > flushed)
}

// placeApart makes the values of a transaction that lie in value files of their
// own a part of the database: those that it was given as readers, and its
// large ones, if there are enough of them.
func (d *DB) placeApart(ctx context.Context, r *request) error {
	w := r.writes
	p := placement{db: d}
	pending := w.pending
	var err error
	bytes, large := int64(0), w.large >= d.opts.apartMin()
	if large {
		bytes = w.large
	}
	for _, s := range w.streams {
		bytes += s.file.Size
	}
	if !d.background.enter() {
		return ErrClosed
	}
	defer d.background.running.Done()
	if err := d.admission.admitApart(ctx, bytes); err != nil {
		return err
	}
	if large {
		if pending, err = d.writeApart(w.pending, &p); err != nil {
			p.abandon()
			return fmt.Errorf("write values apart: %w", err)
		}
	}
	files := p.made
	for _, s := range w.streams {
		files = append(files, s.file)
	}
	for _, f := range files {
		d.apart.hold(f.Num, 0)
		r.apart = append(r.apart, f.Num)
		r.apartBytes += f.Size
	}
	if err := d.installApart(files, large); err != nil {
		if d.manifest.Err() != nil {
			d.backgroundFailed(err)
			err = failed(err)
		}
		if pending != w.pending {
			pending.Release()
		}
		p.abandon()
		for _, f := range files {
			d.apart.forget(f.Num)
		}
		r.apart, r.apartBytes = nil, 0
		return fmt.Errorf("write values apart: %w", err)
	}
	for _, s := range w.streams {
		s.kept = true
	}
	r.moved = bytes
	d.work.apartBytes.Add(r.apartBytes)
	if pending != w.pending {
		w.pending.Release()
		w.pending = pending
	}
	return nil
}

// writeApart writes the large values of old into value files. It returns the
// same writes with pointers in their place.
func (d *DB) writeApart(old *memtable.Table, p *placement) (pending *memtable.Table, err error) {
	pending = d.memory.newPending()
	for e := range old.Entries {
		if e.Meta.Kind == base.KindSet && int64(len(e.Value)) >= d.opts.LargeValueThreshold {
			// Its number is not known yet. A file of one transaction has each
			// key once, so that the key alone tells the record.
			_, err = p.append(&e, 0)
		}
		if err == nil {
			err = pending.Set(e.Key, e.Value, base.Hash(e.Key, d.hashSeed), e.Meta, 0)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = p.seal()
	}
	if err != nil {
		pending.Release()
		return nil, err
	}
	return pending, nil
}

// seal finishes the last file and makes the names of all durable. Both wait for the
// device, side by side unless somebody drives, who has one thread.
func (p *placement) seal() error {
	if p.db.driver != nil {
		if err := p.finish(); err != nil {
			return err
		}
		return p.db.syncNames()
	}
	named := make(chan error, 1)
	go func() { named <- p.db.syncNames() }()
	return errors.Join(p.finish(), <-named)
}

// installApart makes files a part of the database, whose names may be durable.
func (d *DB) installApart(files []*manifest.ValueFile, named bool) error {
	edit := manifest.Edit{AddValues: files}
	if !named {
		return d.install(edit, nil)
	}
	d.at(pointInstall)
	d.installing.Lock()
	defer d.installing.Unlock()
	return d.installNamed(edit, nil)
}

// settle tells what has become of the values that a transaction wrote apart.
// If it was not applied, they are garbage, which collection gives back; if
// nobody knows, because the log failed, they stay.
func (d *DB) settle(r *request) {
	d.room.taken(r)
	for _, n := range r.apart {
		switch {
		case r.seq != 0:
			d.apart.hold(n, r.seq)
			if d.manifest.State().FlushedSeq >= r.seq {
				d.wakeCollector() // when the flush did, the file was held yet
			}
		case d.commits.poisoned() == nil:
			d.apart.forget(n)
			d.wakeCollector()
		}
	}
	r.apart = nil
}

// seenApart notes a pointer that recovery found in the log.
func (d *DB) seenApart(pointer []byte, seq base.SeqNum) error {
	p, err := values.DecodePointer(pointer)
	if err == nil {
		d.apart.hold(p.File, seq)
	}
	return err
}
