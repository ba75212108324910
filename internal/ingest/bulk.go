package ingest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/fault"
	libiter "github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
)

// Entries that do not fit in memory become runs of temporary tables. A run is sorted, and
// its entries are newer than those of the runs before it: their version is the number of
// the run. The manifest never knows the tables, so the next Open after a crash deletes
// them like those of any unfinished job.

const (
	// runMemory is about what a run of small entries takes in memory while it is merged, in
	// bytes.
	runMemory = 3 << 19
	// mergeMin is the least number of such runs that are merged at once, however little
	// memory there is.
	mergeMin = 4
)

// BulkLoad returns a Func for entries in any order, which sorts that many bytes in memory.
// Of equal keys, the last one counts.
func (e *Engine) BulkLoad(memory int64) Func {
	return func(ctx context.Context, entries iter.Seq2[Entry, error], to Target) (result Result, err error) {
		ctx, end, err := e.Group.Begin(ctx)
		if err != nil {
			return Result{}, err
		}
		defer end()
		if err := e.Commits.Failed(); err != nil {
			return Result{}, err
		}
		l := &loader{Engine: e, to: to, memory: memory, files: tree.New(e.Unmapped), meter: meter{engine: e, ctx: ctx}}
		defer l.close()
		if err := l.read(entries); err != nil {
			return Result{}, err
		}
		if len(l.runs) == 0 {
			return e.ingest(ctx, l.sorter.sorted(), to)
		}
		err = fault.Guard(func() error {
			if err := l.spill(); err != nil {
				return err
			}
			if err := l.narrow(); err != nil {
				return err
			}
			result, err = e.ingest(ctx, l.merged(l.runs), to)
			return err
		})
		return result, err
	}
}

// A loader sorts the entries of one bulk load.
type loader struct {
	*Engine
	to      Target
	memory  int64 // bytes
	sorter  sorter
	files   *tree.Files
	runs    []run // the oldest first
	number  base.SeqNum
	entries int64  // so far
	largest int64  // key and value of the largest entry so far, in bytes
	key     []byte // the stored form of a key
	meter   meter
}

// A run is sorted temporary tables. depth is how often its entries were merged.
type run struct {
	tables []*manifest.Table
	depth  int
}

// read takes all entries.
func (l *loader) read(entries iter.Seq2[Entry, error]) error {
	for entry, err := range entries {
		if err == nil {
			err = entry.check(l.entries)
		}
		if err == nil {
			err = l.meter.admit(0)
		}
		if err != nil {
			return err
		}
		l.entries++
		l.largest = max(l.largest, int64(len(entry.Key)+len(entry.Value)))
		l.sorter.add(&entry)
		if l.sorter.bytes >= l.memory {
			if err := fault.Guard(l.spill); err != nil {
				return err
			}
		}
	}
	return nil
}

// spill writes what is in memory as a run, and merges runs of which there are too many.
func (l *loader) spill() error {
	if len(l.sorter.items) == 0 {
		return nil
	}
	l.number++
	tables, err := l.write(versioned(l.sorter.sorted(), l.number))
	if err != nil {
		return err
	}
	l.runs = append(l.runs, run{tables: tables})
	for most := l.fanIn(); ; {
		first := len(l.runs) - 1
		for first > 0 && l.runs[first-1].depth == l.runs[first].depth {
			first--
		}
		if len(l.runs)-first < most {
			return nil
		}
		if err := l.merge(len(l.runs)-most, most); err != nil {
			return err
		}
	}
}

// fanIn returns how many runs may be merged at once. A run takes a window for keys. Beside
// it, the run takes two windows that hold the largest entry, and two buffers to decode it.
func (l *loader) fanIn() int {
	one := max(runMemory, 2*(l.largest+min(l.largest, codec.SizeMax))+1<<20)
	return int(max(2, max(l.memory, mergeMin*runMemory)/one))
}

// narrow merges runs until one merge can take all of them. It begins with the smallest ones.
func (l *loader) narrow() error {
	for most := l.fanIn(); len(l.runs) > most; {
		n := min(most, len(l.runs)-most+1)
		best, least := 0, int64(math.MaxInt64)
		for first := range len(l.runs) - n + 1 {
			if size := sizeOf(l.runs[first : first+n]); size < least {
				best, least = first, size
			}
		}
		if err := l.merge(best, n); err != nil {
			return err
		}
	}
	return nil
}

// sizeOf returns the bytes of the tables of runs.
func sizeOf(runs []run) (bytes int64) {
	for _, r := range runs {
		for _, t := range r.tables {
			bytes += t.Size
		}
	}
	return bytes
}

// merge merges n runs from the first one on.
func (l *loader) merge(first, n int) error {
	old := slices.Clone(l.runs[first : first+n])
	tables, err := l.write(l.versions(old))
	if err != nil {
		return err
	}
	l.runs = slices.Replace(l.runs, first, first+n, run{tables: tables, depth: old[0].depth + 1})
	for _, r := range old {
		l.remove(r.tables)
	}
	return nil
}

// write writes sorted entries to temporary tables.
func (l *loader) write(entries iter.Seq2[base.Entry, error]) (tables []*manifest.Table, err error) {
	out := l.relay(l.Jobs.SortJob())
	done := false // also not after a fault in the mapping of a run
	defer func() {
		if !done {
			l.Store.DeleteTables(out.abandon().Files)
		}
	}()
	for entry, err := range entries {
		if err == nil {
			err = l.meter.admit(int64(len(entry.Key)) + int64(len(entry.Value)) + entryBytes)
		}
		if err == nil {
			l.key = l.to.Space.Append(l.key[:0], entry.Key)
			entry.Key = l.key
			err = out.add(&entry)
		}
		if err != nil {
			return nil, fmt.Errorf("sort: %w", err)
		}
	}
	result, err := out.finish()
	done = err == nil
	return result.Tables, err
}

// versioned returns entries with a version.
func versioned(entries iter.Seq2[Entry, error], seq base.SeqNum) iter.Seq2[base.Entry, error] {
	return Mapped(entries, func(e *Entry) base.Entry {
		return base.Entry{Key: e.Key, Value: e.Value, Meta: e.Meta, Seq: seq}
	})
}

// merged yields the newest entry of each key of runs, without version.
func (l *loader) merged(runs []run) iter.Seq2[Entry, error] {
	return Mapped(l.versions(runs), func(e *base.Entry) Entry {
		return Entry{Key: e.Key, Value: e.Value, Meta: e.Meta}
	})
}

// versions yields the newest entry of each key of runs, with the key of the caller.
func (l *loader) versions(runs []run) iter.Seq2[base.Entry, error] {
	return func(yield func(base.Entry, error) bool) {
		var version manifest.Version
		for i := range runs { // a view wants the newest first
			r := runs[len(runs)-1-i]
			for _, t := range r.tables {
				t.Level, t.Run = 0, uint64(len(runs)-i)
			}
			version.Levels[0] = append(version.Levels[0], r.tables...)
		}
		view := l.files.View(&version, nil)
		levels := make([]tree.Iter, view.Depth())
		inputs := make([]libiter.Input, len(levels))
		for i := range levels {
			levels[i].Init(view, i, table.IterOptions{Unmapped: true})
			defer levels[i].Close()
			inputs[i].Source = &levels[i]
		}
		var all libiter.Visible
		all.Init(inputs, false, nil, nil, libiter.Snapshot{At: base.SeqNumMax, AllVersions: true})
		var last []byte
		for ok := all.Seek(nil); ok; ok = all.Next() {
			e := *all.Entry
			if bytes.Equal(e.Key, last) {
				continue
			}
			last = append(last[:0], e.Key...)
			e.Key = e.Key[l.to.Space.Skip(e.Key):]
			if !yield(e, nil) {
				return
			}
		}
		if err := all.Err(); err != nil {
			yield(base.Entry{}, err)
		}
	}
}

// remove deletes temporary tables.
func (l *loader) remove(tables []*manifest.Table) {
	for _, t := range tables {
		_ = l.files.Drop([]base.FileNum{t.Num}) // it was only read
		l.Store.DeleteTables([]base.FileNum{t.Num})
	}
}

// close deletes all temporary tables.
func (l *loader) close() {
	l.meter.close()
	for _, r := range l.runs {
		l.remove(r.tables)
	}
	_ = l.files.Close() // they were only read
}
