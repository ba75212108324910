package transaction

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/readset"
	"github.com/stoatdb/stoat/internal/stamp"
)

// timedReads says how an iterator over versions records what it reads.
type timedReads struct {
	kind timedKind
	at   uint64
	gate *commit.Gate // of the keyspace; nil without timestamps
	by   *timedCore   // the iterator that moves this one; nil for a point read
}

type timedKind uint8

const (
	timedRanges    timedKind = iota // all versions of the ranges, as without timestamps
	timedUpTo                       // versions up to the timestamp
	timedUnchecked                  // nothing
)

// Get is stoat.TimedTxn.Get.
func (t TimedTxn) Get(key []byte) ([]byte, error) {
	item, err := t.find(key)
	if err != nil {
		return nil, err
	}
	return item.Value()
}

// GetCopy is stoat.TimedTxn.GetCopy.
func (t TimedTxn) GetCopy(key, dst []byte) ([]byte, error) {
	item, err := t.find(key)
	if err != nil {
		return dst, err
	}
	return item.ValueCopy(dst)
}

// GetItem is stoat.TimedTxn.GetItem.
func (t TimedTxn) GetItem(key []byte) (Item, error) { return t.find(key) }

// Has is stoat.TimedTxn.Has.
func (t TimedTxn) Has(key []byte) (bool, error) {
	_, err := t.find(key)
	if err == base.ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// find returns the latest version of key that is not after the timestamp, or
// ErrNotFound if there is none, or one without a value.
func (t TimedTxn) find(key []byte) (Item, error) {
	if err := t.check(); err != nil {
		return Item{}, err
	}
	if err := checkTimedKey(key); err != nil {
		return Item{}, err
	}
	return t.lookup(key)
}

// lookup is find without checks.
func (t TimedTxn) lookup(key []byte) (Item, error) {
	it, err := t.tx.takePoint()
	if err != nil {
		return Item{}, err
	}
	item, found := it.seekVersion(t, key)
	err = it.c.err
	t.tx.returnPoint(it)
	switch {
	case err != nil:
		return Item{}, t.tx.noteRead(err)
	case !found && t.tx.ended():
		return Item{}, base.ErrTxnDone // just now, on another goroutine
	case !found || !t.tx.lives(&item.entry):
		return Item{}, base.ErrNotFound
	}
	item.entry.Meta, item.entry.Value = plainMeta(item.entry.Meta), t.tx.lend(item.entry.Value)
	return item, nil
}

// lives reports whether a version has a value for the transaction.
func (tx Txn) lives(e *base.Entry) bool {
	if e.Meta.Kind == base.KindStampDelete {
		return false
	}
	at := e.Meta.ExpiresAt &^ stamp.ExpiryMark
	return at == 0 || !tx.Expired(at, e.Seq > base.SeqNumMax)
}

// takePoint returns an iterator for one lookup, for which returnPoint gives it back.
// Lookups of several goroutines use an iterator each.
func (tx Txn) takePoint() (Iterator, error) {
	if !tx.lockOpen() {
		return Iterator{}, base.ErrTxnDone
	}
	open := &tx.s.open
	if n := len(open.points); n > 0 {
		it := open.points[n-1]
		open.points = open.points[:n-1]
		open.Unlock()
		return it, nil
	}
	open.Unlock()
	it := tx.In(nil).Iterator(IterOptions{})
	return it, it.Err()
}

// returnPoint keeps an iterator for the next takePoint. After an error, it closes the
// iterator.
func (tx Txn) returnPoint(it Iterator) {
	if it.c.err != nil {
		_ = it.Close() // the caller has the error
		return
	}
	if tx.lockOpen() {
		tx.s.open.points = append(tx.s.open.points, it)
		tx.s.open.Unlock()
	}
}

// seekVersion returns the latest version of key that is not after the timestamp of t.
func (it Iterator) seekVersion(t TimedTxn, key []byte) (item Item, found bool) {
	c := it.c
	c.working.Lock()
	defer c.working.Unlock()
	if !it.allowed() {
		return item, false
	}
	defer fault.Enter().Leave(&c.err)
	c.timed = t.reads(timedRanges, nil)
	b, space := &c.bounds, t.tx.Space()
	b.buffer = stamp.Append(space.Append(b.buffer[:0], nil), key, t.at)
	n := len(b.buffer)
	b.buffer = stamp.AppendAfter(space.Append(b.buffer, nil), key)
	b.lower, b.upper = b.buffer[:n:n], b.buffer[n:]
	if c.err = c.renew(); c.err != nil {
		return item, false
	}
	c.visible.Within(b.lower, b.upper)
	found = c.visible.Seek(b.lower)
	c.notePoint(found)
	if !found {
		c.err = c.visible.Err()
		return item, false
	}
	return t.item(*c.visible.Entry), true
}

// notePoint records what seekVersion has read: the versions from the timestamp back to the
// one that it found. The transaction's own version is not read. Under its own purge, nothing
// else can answer.
func (c *core) notePoint(found bool) {
	w := c.tx.s.writes
	if w == nil || c.timed.kind == timedUnchecked || mutant.On(mutant.SkipPointCheck) {
		return
	}
	lo, key := c.bounds.lower, c.visible.Entry.Key
	switch {
	case w.Pending.HasDeletions() && w.Pending.Cover(lo, c.tx.s.seq) != 0:
	case !found:
		w.Reads.AddRange(lo, c.bounds.upper)
	case c.visible.Entry.Seq > base.SeqNumMax:
		w.Reads.AddRange(lo, key)
	default:
		w.Reads.AddRangeThrough(lo, key)
	}
}

// item returns a version as an item, with a key that stays until the transaction ends.
func (t TimedTxn) item(e base.Entry) Item {
	own := t.tx.s.decoded.Alloc(len(e.Key))
	copy(own, e.Key)
	t.tx.s.decoded.Filled(len(own))
	e.Key = own
	return Item{tx: t.tx, entry: e, skip: t.tx.skip(own), timed: true}
}

// reads returns how the reads of by at the timestamp are recorded: as checked says, unless
// the keyspace is unchecked.
func (t TimedTxn) reads(checked timedKind, by *timedCore) timedReads {
	if t.tx.in.handle.Timestamps() == manifest.TimestampsUnchecked {
		checked = timedUnchecked
	}
	return timedReads{checked, t.at, &t.tx.in.handle.Gate, by}
}

// setTimed says how the iterator records what it reads. Another goroutine may have closed
// the iterator.
func (it Iterator) setTimed(reads timedReads) {
	it.c.working.Lock()
	defer it.c.working.Unlock()
	if !it.closed() {
		it.c.timed = reads
	}
}

// noteVersions is noteRange for versions with timestamps. Backward, the iterator has read on
// to the next key. The range then ends at the versions of the key that the caller was shown.
func (c *core) noteVersions(reads *readset.Set) {
	key, at := c.visible.Entry.Key, c.timed.at
	switch valid := c.visible.Valid(); {
	case c.timed.kind == timedUnchecked:
	case !c.reverse && (valid || mutant.On(mutant.SkipPhantomTail)):
		reads.AddRangeThroughAt(c.start, key, at)
	case !c.reverse:
		reads.AddRangeAt(c.start, c.bounds.upper, at)
	case c.timed.by.ahead():
		reads.AddRangeAt(c.timed.by.group, c.start, at)
	case valid:
		reads.AddRangeAt(key, c.start, at)
	default:
		reads.AddRangeAt(c.bounds.lower, c.start, at)
	}
}
