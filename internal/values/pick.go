package values

import (
	"cmp"
	"iter"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// A FileState is the input for the choice of a file to collect.
type FileState struct {
	Num base.FileNum
	// Bytes is the total size of the file's records. Live is the part of it
	// that tables refer to.
	Bytes, Live uint64
	// Held says that a job writes or rewrites the file, or that memtables refer
	// to it. Then tables do not refer to everything that is live.
	Held bool
}

// A Pressure is the load beside garbage collection.
type Pressure uint8

// The pressures.
const (
	// Idle: no foreground work needs the device.
	Idle Pressure = iota
	// Busy: foreground work is in progress.
	Busy
	// Strained: foreground work is slowed down so that collection keeps up.
	Strained
)

// garbageMin is the percentage of garbage, over all files, from which the collector
// collects it, without slack. The less garbage a file has, the more a rewrite costs for its gain. But
// all files together should stay near 1.5 times the live data. Level 0, the log and
// the copy in progress take a part of that. See decision 0008.
var garbageMin = [...]uint64{Idle: 5, Busy: 18, Strained: 14}

// A Choice is the next step against garbage.
type Choice struct {
	Num base.FileNum
	// Drop says that nothing in the file is live: the file is dropped unread.
	Drop bool
	// Copy and Free are the bytes that a rewrite copies, and the bytes it frees.
	Copy, Free uint64
}

// PickCollection returns the files to collect, the most urgent first, while there is
// need. Beside foreground work, slack times as much garbage as usual may stay, in proportion
// to what is live. It drops wholly dead files at once. Then, while the garbage in all files
// together exceeds the bound for the pressure, it picks the file with the largest
// fraction of garbage. Ties go to the larger file, then to the older. It sorts files.
//
// The worst file has at least the average fraction of garbage, so every rewrite pays.
// Each rewrite reduces the garbage, so the rewrites end.
func PickCollection(files []FileState, pressure Pressure, slack float64) iter.Seq[Choice] {
	least := garbageFrom(pressure, slack)
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
			return garbage > 0 && float64(garbage) >= float64(total)*least
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

// garbageFrom returns the part of all files that must be garbage for a collection.
func garbageFrom(pressure Pressure, slack float64) float64 {
	part := float64(garbageMin[pressure]) / 100
	if pressure == Idle {
		return part
	}
	ofLive := slack * part / (1 - part)
	return ofLive / (1 + ofLive)
}

// garbage returns the number of unreferenced bytes. It tolerates a sum of references
// above the file's size: only a check of the database reports that.
func (f *FileState) garbage() uint64 { return f.Bytes - min(f.Live, f.Bytes) }

// part returns the fraction of the file that is garbage.
func (f *FileState) part() float64 { return float64(f.garbage()) / float64(max(1, f.Bytes)) }

// compare returns a negative number if f is worse than g.
func (f *FileState) compare(g *FileState) int {
	return cmp.Or(cmp.Compare(g.part(), f.part()), cmp.Compare(g.Bytes, f.Bytes), cmp.Compare(f.Num, g.Num))
}
