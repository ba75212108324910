package values

import (
	"cmp"
	"iter"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// A FileState is what the choice of a file to collect depends on.
type FileState struct {
	Num base.FileNum
	// Bytes is what the records of the file take, Live what of that tables
	// refer to.
	Bytes, Live uint64
	// Held says that the file is being written or rewritten, or that
	// memtables refer to it: what tables refer to is not all that is live.
	Held bool
}

// A Pressure says how much else there is to do.
type Pressure uint8

// The pressures.
const (
	// Idle: nobody waits for the device.
	Idle Pressure = iota
	// Busy: foreground work is under way.
	Busy
	// Strained: foreground work is slowed down for the sake of collection.
	Strained
)

// garbageMin is the percentage of garbage, over all files, from which it is
// collected. To rewrite a file costs the more, for what it gains, the less of it
// is garbage; but what is garbage by the tables that are merged is not all:
// level 0, the log and the copy under way come on top of it before the whole is
// half as large again as what is live. See decision 0008.
var garbageMin = [...]uint64{Idle: 5, Busy: 18, Strained: 14}

// A Choice is what to do about garbage next.
type Choice struct {
	Num base.FileNum
	// Drop says that nothing in the file is live: it goes unread.
	Drop bool
	// Copy and Free are what a rewriting copies, and what it makes free.
	Copy, Free uint64
}

// PickCollection returns what to collect, the most urgent first, as long as there
// is need. Files wholly dead go at once. Otherwise, while the garbage in all files
// together is beyond what the pressure allows, it is the file with the largest part
// of garbage, of those the one with the most, of those the oldest. It sorts files.
//
// The worst file has at least the average's part of garbage, so that each
// rewriting pays, and the garbage falls with each, so that they come to an end.
func PickCollection(files []FileState, pressure Pressure) iter.Seq[Choice] {
	return func(yield func(Choice) bool) {
		var total, garbage uint64
		for i := range files {
			f := &files[i]
			switch {
			case f.Held:
			case f.Live > 0:
				total += f.Bytes
				garbage += f.garbage()
			case !yield(Choice{Num: f.Num, Drop: true, Free: f.Bytes}):
				return
			}
		}
		due := func() bool {
			return garbage > 0 && float64(garbage)*100 >= float64(total)*float64(garbageMin[pressure])
		}
		if !due() {
			return
		}
		slices.SortFunc(files, func(a, b FileState) int { return a.compare(&b) })
		for i := range files {
			f := &files[i]
			if f.Held || f.Live == 0 {
				continue
			}
			if !due() || !yield(Choice{Num: f.Num, Copy: f.Live, Free: f.garbage()}) {
				return
			}
			total -= f.garbage()
			garbage -= f.garbage()
		}
	}
}

// garbage returns how much of the file nothing refers to. A sum of references
// that exceeds the file is for a check of the database to report.
func (f *FileState) garbage() uint64 { return f.Bytes - min(f.Live, f.Bytes) }

// part returns which part of the file is garbage.
func (f *FileState) part() float64 { return float64(f.garbage()) / float64(max(1, f.Bytes)) }

// compare is negative if f is worse than g.
func (f *FileState) compare(g *FileState) int {
	return cmp.Or(cmp.Compare(g.part(), f.part()), cmp.Compare(g.Bytes, f.Bytes), cmp.Compare(f.Num, g.Num))
}
