package stoat

import (
	"bytes"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/values"
)

// Deletions are few bytes, and may hide many: fifty of them a memtable that
// nobody would flush for its size, over gigabytes that can come back only when
// the deletions are in tables. So it is looked up what they hide, and for enough
// of that a memtable is flushed whatever its size, also beside commits. A queue
// whose jobs are deleted before they ever come to tables is left alone: its
// deletions hide nothing there.
//
// What the merges behind the flush do about it is told in internal/compact.

const (
	// deletionsEvery is how often it is looked at most what deletions hide, and so
	// how often a memtable is flushed for their sake.
	deletionsEvery = 20 * time.Second
	// deletionsPart is the part of all tables and values that they must hide
	// while others commit: beyond a sixteenth of it, by default a flush like this
	// would be one of many that merges wait for.
	deletionsPart = 64
	// deletionsSamples is of about how many deleted keys it is looked up what they
	// hide. One look costs a microsecond, or a read of the device.
	deletionsSamples = 64
	// deletionsSteps is over how many entries at most range deletions are followed,
	// where to begin with a range or a table counts as much as a batch.
	deletionsSteps = 1 << 14
)

// A deletionsLook is what was found when it was last looked. It is the flusher's.
type deletionsLook struct {
	at     int64 // of monotonic, 0 before the first
	table  *memtable.Table
	count  uint64 // of its deletions
	hidden int64
}

// deletionsDue reports whether the deletions in the memtable that takes the writes
// hide enough for a flush, and otherwise in how long it is worth asking again
// although nothing else happens.
func (d *DB) deletionsDue(idle bool) (due bool, again time.Duration) {
	t, look := d.view.Load().tables[0], &d.background.deletions
	count := t.Deletions()
	if count == 0 {
		return false, 0
	}
	enough, all := d.flushMin(), d.allBytes()
	if !idle {
		enough = max(enough, all/deletionsPart)
	}
	if look.table != t || look.count != count {
		if wait := look.at + int64(deletionsEvery) - monotonic(); look.at != 0 && wait > 0 {
			return false, time.Duration(wait)
		}
		hidden := d.hiddenBy(t, count, max(enough, all/deletionsPart))
		*look = deletionsLook{at: monotonic(), table: t, count: count, hidden: hidden}
	}
	return look.hidden >= enough, 0
}

// allBytes returns how much tables take and the values that they refer to.
func (d *DB) allBytes() (bytes int64) {
	v := d.manifest.State().Version
	for level := range v.Levels {
		bytes += v.Bytes(level)
	}
	for _, f := range v.Values {
		bytes += int64(f.Live)
	}
	return bytes
}

// hiddenBy estimates how many bytes of tables and values the deletions of t hide,
// of which there are count. Beyond enough it does not look further. What cannot be
// read counts as nothing: who reads it is told.
func (d *DB) hiddenBy(t *memtable.Table, count uint64, enough int64) (hidden int64) {
	slot, err := d.acquire()
	if err != nil {
		return 0 // Close flushes
	}
	defer d.release(slot)
	v := d.pin(slot).tree
	_ = fault.Guard(func() error {
		hidden = d.hiddenByKeys(v, t, 1+count/deletionsSamples)
		return nil
	})
	if !t.HasDeletions() {
		return hidden
	}
	walk := hiddenWalk{view: v, enough: enough, found: hidden}
	var ranges rangedel.Cursor
	ranges.Init(false)
	t.AddDeletions(&ranges, base.SeqNumMax)
	_ = fault.Guard(func() error {
		walk.overAll(&ranges)
		return nil
	})
	return walk.found
}

// hiddenByKeys looks at one in every of the deleted keys of t.
func (d *DB) hiddenByKeys(v *tree.View, t *memtable.Table, every uint64) (hidden int64) {
	turn := uint64(0)
	t.DeletedKeys(func(key []byte) bool {
		if turn++; turn%every != 0 {
			return true
		}
		value, m, _, ok, err := v.Get(key, base.Hash(key, d.hashSeed), base.SeqNumMax, nil)
		if ok && err == nil {
			hidden += int64(every) * entryBytes(key, value, m)
		}
		return true
	})
	return hidden
}

// entryBytes returns about how many bytes an entry of a table takes with its value.
func entryBytes(key, value []byte, m base.Meta) int64 {
	bytes := int64(len(key) + len(value))
	switch m.Kind {
	case base.KindPointer:
		if at, err := values.DecodePointer(value); err == nil {
			bytes += int64(at.Length)
		}
	case base.KindDelete:
		return 0
	}
	return bytes
}

// A hiddenWalk adds up what ranges hold, until that is enough or it has gone far
// enough.
type hiddenWalk struct {
	view          *tree.View
	enough, found int64
	steps         int
	in            tree.Iter
	batch         iter.Batch
}

// overAll adds what lies in ranges, once where they overlap and in one go where
// they touch.
func (w *hiddenWalk) overAll(ranges *rangedel.Cursor) {
	var from []byte // where what is covered at key begins, nil if it is not
	for key := firstKey; key != nil && w.goesOn(); w.steps++ {
		seq, until := ranges.At(key)
		switch {
		case seq == 0 && from != nil:
			w.over(from, key)
			from = nil
		case seq > 0 && from == nil:
			from = key
		}
		key = until
	}
}

// over adds what lies from lo to hi.
func (w *hiddenWalk) over(lo, hi []byte) {
	for level := 0; level < w.view.Depth() && w.goesOn(); level++ {
		w.in.Init(w.view, level, table.IterOptions{KeysOnly: true})
		w.in.Seek(lo)
		w.steps += iter.BatchSize
		for w.goesOn() && w.step(hi) {
		}
		w.in.Close()
	}
}

func (w *hiddenWalk) goesOn() bool { return w.found < w.enough && w.steps < deletionsSteps }

// step adds a batch of what lies before hi, and reports whether there may be more.
func (w *hiddenWalk) step(hi []byte) bool {
	b := &w.batch
	b.Want = iter.BatchSize
	if err := w.in.Fill(b); err != nil {
		return false
	}
	for i := range b.N {
		if bytes.Compare(b.Keys[i], hi) >= 0 {
			return false
		}
		w.found += entryBytes(b.Keys[i], b.Vals[i], b.Metas[i])
	}
	w.steps += b.N
	return b.N > 0
}
