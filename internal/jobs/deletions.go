package jobs

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
	"github.com/stoatdb/stoat/internal/work"
)

// Deletions are few bytes, and may hide many. Fifty of them do not fill a
// memtable, but the gigabytes below come back only when the deletions are in
// tables. So the flusher looks up what they hide, and for enough of that it
// flushes a memtable of any size, also beside commits. Short values that replace
// long ones are like deletions. A queue whose jobs are deleted before they come to
// tables is left alone: its deletions hide nothing there. See decision 0021.

const (
	// deletionsEvery is the least time between two looks of the flusher at what deletions
	// hide, and so between two flushes for their sake.
	deletionsEvery = 20 * time.Second
	// scarceEvery is the same time while space is scarce.
	scarceEvery = time.Second
	// deletionsPart: beside commits, deletions must hide at least all tables and values
	// divided by deletionsPart. With a greater number, there would be many such flushes,
	// and merges would wait for them.
	deletionsPart = 64
	// deletionsSamples is about the number of deleted keys that the flusher looks up, and of
	// keys with new values. One look costs a microsecond, or a read of the device.
	deletionsSamples = 64
	// deletionsSteps bounds the entries over which range deletions are followed. To
	// begin with a range or a table counts as much as a batch.
	deletionsSteps = 1 << 14
)

// deletionsSeen is what the last look found.
type deletionsSeen struct {
	at     int64 // of work.Now, 0 before the first
	table  *memtable.Table
	count  int   // of its entries
	hidden int64 // bytes
}

// deletionsDue reports whether the deletions and shorter values in the active memtable hide
// enough for a flush. If not, it returns after how long to ask again, although nothing else
// happens.
func (j *Jobs) deletionsDue(idle, scarce bool) (due bool, again time.Duration) {
	t, look := j.store.View().Memtables[0], &j.deletions
	count := t.Len()
	if count == 0 {
		return false, 0
	}
	every := deletionsEvery
	if scarce {
		every = scarceEvery
	}
	if look.at == 0 && t.Deletions() == 0 {
		look.at = work.Now() // a program that opens a database for one Set reads no tables
	}
	if look.table != t || look.count != count {
		if wait := look.at + int64(every) - work.Now(); look.at != 0 && wait > 0 {
			return false, time.Duration(wait)
		}
	}
	enough, all := j.flushMin(), j.store.Version().LiveBytes()
	if !idle && !scarce {
		enough = max(enough, all/deletionsPart)
	}
	if look.table != t || look.count != count {
		hidden := j.hiddenBy(t, max(enough, all/deletionsPart))
		*look = deletionsSeen{at: work.Now(), table: t, count: count, hidden: hidden}
	}
	return look.hidden >= enough, 0
}

// hiddenBy estimates how many bytes of tables and values t hides. It stops at enough.
// Unreadable data counts as nothing: a reader that meets it gets the error.
func (j *Jobs) hiddenBy(t *memtable.Table, enough int64) int64 {
	slot, held, err := j.store.HoldView()
	if err != nil {
		return 0 // Close flushes
	}
	defer j.store.Release(slot)
	found := hiddenKeys{}
	j.lookAt(held.Tree, t, found)
	walk := hiddenWalk{view: held.Tree, enough: enough, found: found.bytes()}
	if !t.HasDeletions() {
		return walk.found
	}
	var ranges rangedel.Cursor
	ranges.Init(false)
	t.AddDeletions(&ranges, base.SeqNumMax)
	_ = fault.Guard(func() error {
		walk.overAll(&ranges)
		return nil
	})
	return walk.found
}

// entryBytes returns about how many bytes an entry of a table takes with its value.
func entryBytes(key, value []byte, m base.Meta) int64 {
	bytes := int64(len(key) + len(value))
	switch m.Kind {
	case base.KindPointer:
		if at, err := values.DecodePointer(value); err == nil {
			bytes += at.Length()
		}
	case base.KindDelete:
		return 0
	}
	return bytes
}

// A hiddenWalk adds up what ranges hold, until it has found enough or has made
// deletionsSteps steps.
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
	for key := base.FirstKey; key != nil && w.goesOn(); w.steps++ {
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

// over adds what lies from lo to hi, exclusive.
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
		if bytes.Compare(b.Entries[i].Key, hi) >= 0 {
			return false
		}
		w.found += entryBytes(b.Entries[i].Key, b.Entries[i].Value, b.Entries[i].Meta)
	}
	w.steps += b.N
	return b.N > 0
}
