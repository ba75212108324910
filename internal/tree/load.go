package tree

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Load opens tables that were just written, and fetches and verifies all of
// them, as long as mapped files take no more than limit bytes with them, and
// without those that are dropped. Before each it asks stop whether to leave it
// at that. Otherwise the first reads of a new table would
// each pay for the place that they touch; and after a burst of writes most of
// what is read is new.
//
// It only does early what reads do: errors are theirs to meet.
func (f *Files) Load(tables []*manifest.Table, drops []manifest.Place, limit int64, stop func() bool) {
	held := f.held(drops)
	for _, m := range tables {
		if held += m.Size; held > limit || stop() {
			return
		}
		f.mu.Lock()
		t := f.table(m)
		f.mu.Unlock()
		if t.tableHandle.reader.Load() != nil {
			continue // it has only moved to another level
		}
		r, err := f.reader(t)
		if err != nil {
			continue
		}
		_ = r.Load() // what it did not verify, a read will
	}
}

// LoadValues brings a value file that is to take the place of another into memory
// before anybody reads it, if most of the other is there: or the first reads of each
// of its places would have to fetch what they had a moment ago.
//
// Errors are for reads to meet.
func (f *Files) LoadValues(fresh, old *manifest.ValueFile) {
	f.mu.Lock()
	handle := f.values[old.File]
	f.mu.Unlock()
	if handle == nil {
		return
	}
	if r := handle.reader.Load(); r == nil || 2*r.Gauge().Bytes() < old.Size {
		return
	}
	f.mu.Lock()
	file := f.valueFile(fresh)
	f.mu.Unlock()
	if r, err := f.valueReader(file); err == nil {
		_ = r.Load()
	}
}

// held is about how much of the mapped files is in memory, but for the tables
// in drops.
func (f *Files) held(drops []manifest.Place) (bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for num, h := range f.tables {
		if r := h.reader.Load(); r != nil && !dropped(drops, num) {
			bytes += r.Gauge().Bytes()
		}
	}
	for _, h := range f.values {
		if r := h.reader.Load(); r != nil {
			bytes += r.Gauge().Bytes()
		}
	}
	return bytes
}

func dropped(drops []manifest.Place, num base.FileNum) bool {
	return slices.ContainsFunc(drops, func(p manifest.Place) bool { return p.Num == num })
}
