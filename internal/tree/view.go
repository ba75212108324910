package tree

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
)

// A View holds the tables of one version, arranged for readers: the runs of level 0
// from newest to oldest, then the other non-empty levels. Every version of a key in a
// level is newer than those in the next level. A View is immutable.
type View struct {
	Version *manifest.Version
	files   *Files
	levels  []level
	// filters holds, by level, the filters of the runs of level 0. A run with range
	// tombstones gets an empty filter, which accepts every key: a filter says
	// nothing about tombstones.
	filters []filter.Filter
	values  []valueFile // ascending by identity
	// numbers are the identities of values, contiguous for the search.
	numbers []base.FileNum
}

// View returns the view of v. It shares unchanged levels with old, which may be
// nil.
func (f *Files) View(v *manifest.Version, old *View) *View {
	f.mu.Lock()
	defer f.mu.Unlock()
	view := &View{Version: v, files: f}
	for from := 0; from < len(v.Levels[0]); {
		to := from + 1
		for to < len(v.Levels[0]) && v.Levels[0][to].Run == v.Levels[0][from].Run {
			to++
		}
		view.levels = append(view.levels, f.level(v.Levels[0][from:to], old))
		from = to
	}
	view.filters = filtersOf(view.levels)
	for _, tables := range v.Levels[1:] {
		if len(tables) > 0 {
			view.levels = append(view.levels, f.level(tables, old))
		}
	}
	view.values = f.valueFiles(v.Values, old)
	view.numbers = numbersOf(view.values, old)
	return view
}

// WithoutReaders returns the same view without the readers of tables that it has found.
// It finds them again, except those that were retired.
func (v *View) WithoutReaders() *View {
	fresh := *v
	fresh.levels = slices.Clone(v.levels)
	for i := range fresh.levels {
		fresh.levels[i].readers = make([]atomic.Pointer[table.Reader], len(v.levels[i].tables))
	}
	return &fresh
}

// valueFiles returns the readable value files. It copies unchanged ones from old,
// which is cheap. The caller holds mu.
func (f *Files) valueFiles(m []manifest.LiveValues, old *View) []valueFile {
	var before []valueFile
	if old != nil {
		before = old.values
	}
	files := make([]valueFile, len(m))
	for i, v := range m {
		for len(before) > 0 && before[0].Num < v.Num {
			before = before[1:]
		}
		if len(before) > 0 && before[0].ValueFile == v.ValueFile {
			files[i] = before[0]
		} else {
			files[i] = f.valueFile(v.ValueFile)
		}
	}
	return files
}

// filtersOf returns the filters of runs of level 0.
func filtersOf(runs []level) []filter.Filter {
	filters := make([]filter.Filter, len(runs))
	for i := range runs {
		if runs[i].deletions == nil {
			filters[i] = runs[i].tables[0].Filter
		}
	}
	return filters
}

// numbersOf returns the identities of files. It returns those of old if equal.
func numbersOf(files []valueFile, old *View) []base.FileNum {
	if old != nil && slices.EqualFunc(files, old.numbers, func(f valueFile, n base.FileNum) bool { return f.Num == n }) {
		return old.numbers
	}
	numbers := make([]base.FileNum, len(files))
	for i := range files {
		numbers[i] = files[i].Num
	}
	return numbers
}

// level returns the level of the tables in m. It returns that of old if it has the
// same tables. The caller holds mu.
func (f *Files) level(m []*manifest.Table, old *View) level {
	if old != nil {
		for i := range old.levels {
			if old.levels[i].holds(m) {
				return old.levels[i]
			}
		}
	}
	tables := make([]*Table, len(m))
	for i, t := range m {
		tables[i] = f.table(t)
	}
	return newLevel(tables)
}

// holds reports whether the level consists of the tables m.
func (l *level) holds(m []*manifest.Table) bool {
	return slices.EqualFunc(l.tables, m, func(t *Table, m *manifest.Table) bool { return t.Table == m })
}

// FilterBytes returns the size of all filters in memory, in bytes.
func (v *View) FilterBytes() (bytes int64) {
	for _, f := range v.filters {
		bytes += f.Bytes()
	}
	return bytes
}

// HeapBytes returns about how many bytes of the Go heap v takes. These are filters, range
// tombstones of levels, and the bounds of tables, whether they are open or not.
func (v *View) HeapBytes() int64 {
	bytes := v.FilterBytes()
	for i := range v.levels {
		bytes += v.levels[i].bounds
		if d := v.levels[i].deletions; d != nil {
			bytes += d.bytes.Load()
		}
	}
	return bytes
}

// Depth returns the number of levels; each run of level 0 counts as one.
func (v *View) Depth() int { return len(v.levels) }

// searchesMax is the number of tables that a point read or a seek searches at once.
const searchesMax = 12

// Get returns the newest version of key whose sequence number is at most at, unless a
// range tombstone up to at hides it. hash is base.Hash of the key with the seed of the
// database. The value is not a copy: it is valid until the table is dropped. A
// compressed value is decoded into the arena, which may be nil.
//
// The search in each table that may have the key starts with a cache miss at a random
// address. Get starts all of these loads before it waits for the first.
func (v *View) Get(key []byte, hash uint64, at base.SeqNum, arena *codec.Arena) (value []byte, m base.Meta, seq base.SeqNum, ok bool, err error) {
	var ask [searchesMax]*table.Reader
	deletions := false // whether any searched level has range tombstones
	for from := 0; from < len(v.levels); {
		n := 0
		for ; from < len(v.levels) && n < searchesMax; from++ {
			if from < len(v.filters) && !v.filters[from].May(hash) {
				continue
			}
			var r *table.Reader
			if r, err = v.levels[from].reader(v.files, key, at); err != nil {
				return
			}
			if r == nil {
				continue
			}
			ask[n] = r
			n++
			deletions = deletions || v.levels[from].deletions != nil
		}
		if n > 1 {
			warm := uint64(0)
			for _, r := range ask[:n] {
				warm += r.Warm(hash)
			}
			runtime.KeepAlive(warm)
		}
		for _, r := range ask[:n] {
			value, m, seq, ok, err = r.Get(key, hash, at, arena)
			if deletions {
				if l := r.Deletions(); l != nil && err == nil && hides(l, key, at, seq, ok) {
					return nil, base.Meta{}, 0, false, nil
				}
			}
			if ok || err != nil {
				return
			}
		}
	}
	return
}

// Versions calls visit for the versions of key with a sequence number of at most at, the
// newest first, until visit returns false. It leaves out what range tombstones up to at
// hide: those of the tables, and one of sequence number cover. It is Get for all
// versions, and slower.
func (v *View) Versions(key []byte, hash uint64, at, cover base.SeqNum, arena *codec.Arena, visit func(value []byte, m base.Meta, seq base.SeqNum) bool) error {
	for i := range v.levels {
		if i < len(v.filters) && !v.filters[i].May(hash) {
			continue
		}
		r, err := v.levels[i].reader(v.files, key, at)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		if l := r.Deletions(); l != nil {
			cover = max(cover, l.Cover(key, at))
		}
		for next := at; ; {
			value, m, seq, ok, err := r.Get(key, hash, next, arena)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if seq < cover || !visit(value, m, seq) {
				return nil
			}
			if seq == 0 {
				break
			}
			next = seq - 1
		}
		if cover != 0 {
			return nil // it hides all that is older
		}
	}
	return nil
}
