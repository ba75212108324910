package stoat

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Beyond surplusFrom, in parts of the values that are live, of garbage known
// and expected, writing is slowed down, in proportion: at surplusFull to what
// collection was measured to free in the same time, since overwriting makes as
// much garbage as it writes. The log, tables, headers and copies under way come
// on top before the whole is half as large again as what is live.
const (
	surplusFrom = 0.22
	surplusFull = 0.30
	// surplusPaceMax bounds by how much slower than collection writing may
	// become.
	surplusPaceMax = 4
	// freeRate is what collection is taken to free, in bytes a second, before
	// it was measured.
	freeRate = 32 << 20
	// freeRateMax bounds what it is measured to free: one of a moment says
	// little about the next.
	freeRateMax = 1 << 30
	// surplusBase is how many memtables' worth of live values a database is
	// taken to have at least: a small one is not slowed down for the sake of
	// less than what it writes in a moment.
	surplusBase = 8
)

// A spaceGauge estimates how much of what the values take is not live: what
// compaction has found to be garbage, and what it will find once it merges level 0,
// by the part of the values of the last flushes that replace others. It believes at
// once that more is replaced, and by and by that it is less.
//
// Files that were replaced and have readers yet are no part of it: only the end of
// these readers gives them back, and what they keep does not grow with what is
// written.
type spaceGauge struct {
	part atomic.Uint64 // of what was flushed, a float64
	over atomic.Bool   // writing is slowed down for it
}

// replacing returns what part of new values is taken to replace others.
func (g *spaceGauge) replacing() float64 { return math.Float64frombits(g.part.Load()) }

// learn takes note of what part of the values of a flush replaces others.
func (g *spaceGauge) learn(part float64) {
	g.part.Store(math.Float64bits(max(part, (g.replacing()+part)/2)))
}

// A spaceUse is how the value files of a version are used.
type spaceUse struct {
	garbage uint64 // nothing refers to it
	stays   uint64 // nor to this, but it cannot be collected
	newest  uint64 // level 0 refers to it
	pending uint64 // only memtables refer to it, or commits under way
	all     uint64
}

// surplus returns how much of what values take is not live, as far as is known
// and expected, and how much is.
func (g *spaceGauge) surplus(u spaceUse) (surplus, live float64) {
	if u.garbage+u.pending >= u.all {
		g.part.Store(0) // nothing is live that could be replaced
	}
	hidden := g.replacing() * float64(u.newest+u.pending)
	return float64(u.garbage) + hidden, max(0, float64(u.all-u.garbage)-hidden)
}

// spaceUse returns how the value files of v are used.
func (d *DB) spaceUse(v *manifest.Version, flushed base.SeqNum) spaceUse {
	u := spaceUse{newest: compact.NewestValues(v, d.shape(busy))}
	for _, f := range v.Values {
		u.all += f.Bytes
		switch garbage := f.Bytes - min(f.Live, f.Bytes); {
		case garbage == 0: // of most files, who refers to them does not matter
		case f.Live > 0 && d.bad.has(f.ValueFile):
			u.stays += garbage // however slowly others write
		case d.valuesHeld(f.ValueFile, flushed):
			u.pending += garbage
		default:
			u.garbage += garbage
		}
	}
	return u
}

// collected says what a collection has freed, and in which time. Where one
// follows the other, what lies between them counts: the merging that finds
// the garbage is part of the price.
func (a *admission) collected(freed, read int64, started time.Time) {
	now := time.Now()
	since := started
	if started.Sub(a.lastCollected) < time.Second {
		since = a.lastCollected
	}
	a.lastCollected = now
	if freed < 1<<20 || freed < read/8 {
		return // too little to tell, or what is only worth it in idleness
	}
	const least = int64(time.Second) / (freeRateMax >> 10)
	ns := max(least, int64(now.Sub(since))/(freed>>10))
	if old := a.freeNsPerKiB.Load(); old != 0 {
		ns = (7*old + ns) / 8
	}
	a.freeNsPerKiB.Store(ns)
}

// tablesPart is of how much of what is live a memtable is a part where values are
// replaced, unless that is less than an eighth of one: what is in memory is in the
// log as well, and for a moment a third time in the file that a flush writes.
const tablesPart = 24

// memtableMax returns how large a memtable may become.
func (a *admission) memtableMax() int64 { return a.tableMax.Load() }

// limitTables sets memtableMax, given how much is live.
func (a *admission) limitTables(live float64) {
	most := a.db.opts.MemtableSize
	if a.gauge.replacing() >= replacedMuch {
		most = min(most, max(most/8, int64(live/tablesPart)))
	}
	a.tableMax.Store(most)
}

// replacedMuch is the part of the values of a flush from which on a database is
// taken to be one in which values are replaced.
const replacedMuch = 0.25

// setDebt says how far compaction and collection are behind, by the state that
// was just installed. The caller holds installing.
func (a *admission) setDebt(state *manifest.State, debt int64) {
	const second = float64(time.Second)
	ns := float64(debt) / debtUnit * second / (debtRate >> 10)
	surplus, live := a.gauge.surplus(a.db.spaceUse(state.Version, state.FlushedSeq))
	share := surplus / max(live, float64(surplusBase*a.db.opts.MemtableSize))
	over := (share - surplusFrom) / (surplusFull - surplusFrom)
	if over > 0 {
		free := float64(a.freeNsPerKiB.Load())
		if free == 0 {
			free = second / (freeRate >> 10)
		}
		ns += min(over, surplusPaceMax) * free
	}
	a.gauge.over.Store(over > 0)
	a.limitTables(live)
	if a.nsPerKiB.Swap(int64(ns)) > 0 && int64(ns) == 0 {
		a.forgive()
	}
}
