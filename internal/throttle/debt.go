package throttle

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// debtUnit and debtRate are for compaction that is behind. A debt of debtUnit bytes
	// slows commits to debtRate bytes a second, half the debt to twice that, and so on.
	debtUnit = 512 << 20
	debtRate = 64 << 20

	// surplusFrom and surplusFull are parts of the live values. Beyond surplusFrom
	// of garbage, known and expected, commits are slowed down in proportion. At
	// surplusFull they are slowed to the speed at which collection frees space, as
	// overwriting makes as much garbage as it writes. The log, tables, headers and copies under
	// way come on top. The whole is 1.50 to 1.55 times the live data. While a database grows,
	// both are larger: see Slack.
	surplusFrom = 0.22
	surplusFull = 0.30
	// surplusPaceMax bounds how many times slower than collection commits become.
	surplusPaceMax = 4
	// freeRate is the speed of collection that is assumed before it was measured, in
	// bytes a second.
	freeRate = 128 << 20
	// freeRateMax bounds the measured speed of collection, in bytes a second: a short
	// moment says little about the next.
	freeRateMax = 1 << 30
	// SmallDatabase is the least amount of live values that paceFor assumes, in full
	// memtables. So a small database is not slowed down for what it writes in a moment.
	SmallDatabase = 8
	// tablesPart bounds the size of memtables while values are replaced. The bound is the
	// live values divided by tablesPart, and at least an eighth of the usual size. What is
	// in memory is in the log as well, and for a moment a third time in the files of a
	// flush.
	tablesPart = 24
	// tableMin is the least such bound, in bytes: the smallest MemtableSize. Smaller
	// memtables would hold a few commits each.
	tableMin = 64 << 10
	// replacedMuch is the part of the values of a flush that must replace others for
	// memtables to become smaller.
	replacedMuch = 0.25
)

// An estimate says which part of the new values replaces others. Compaction finds
// that out much later, when it merges level 0. The estimate rises at once and decays
// slowly.
type estimate struct {
	replacing atomic.Uint64 // the bits of a float64 from 0 to 1
	over      atomic.Bool   // commits are slowed down for the sake of collection
}

func (e *estimate) get() float64 { return math.Float64frombits(e.replacing.Load()) }

// learn takes the part of the values of a flush that replaced others.
func (e *estimate) learn(part float64) {
	e.replacing.Store(math.Float64bits(max(part, (e.get()+part)/2)))
}

// Replacing returns which part of new values is expected to replace others.
func (t *Throttle) Replacing() float64 { return t.estimate.get() }

// LearnReplacing takes the part of the values of a flush that replaced others.
func (t *Throttle) LearnReplacing(part float64) { t.estimate.learn(part) }

// Collecting reports whether commits are slowed down until garbage was collected.
func (t *Throttle) Collecting() bool { return t.estimate.over.Load() }

// A Use is how the value files of a version are used, in bytes.
type Use struct {
	Garbage uint64 // nothing refers to it
	Stuck   uint64 // nothing refers to it, and it cannot be collected
	Newest  uint64 // level 0 refers to it
	Pending uint64 // only memtables or commits under way refer to it
	All     uint64
}

// surplus returns how much of the value files is garbage, known and expected, and
// how much is live. Files that only readers keep are no part of it: their end
// gives them back.
func (u Use) surplus(replacing float64) (surplus, live float64) {
	hidden := replacing * float64(u.Newest+u.Pending)
	return float64(u.Garbage) + hidden, max(0, float64(u.All-u.Garbage)-hidden)
}

// SetDebt says how far compaction is behind, in bytes, and how value files are
// used, after an edit. The caller holds installing.
func (t *Throttle) SetDebt(debt int64, use Use) {
	if use.Garbage+use.Pending >= use.All {
		t.estimate.replacing.Store(0) // no live value is left that could be replaced
	}
	replacing := t.estimate.get()
	_, live := use.surplus(replacing)
	slack := t.growth.learn(live, replacing)
	p := paceFor(debt, use, replacing, slack, t.freeNsPerKiB.Load(), t.o.MemtableSize)
	t.debt.Store(debt)
	t.estimate.over.Store(p.collecting)
	t.tableMax.Store(p.tableMax)
	if old := t.nsPerKiB.Swap(p.nsPerKiB); p.nsPerKiB < old {
		t.forgive(float64(p.nsPerKiB) / float64(old))
	}
}

// A pace is how commits are slowed down for the sake of compaction and
// collection.
type pace struct {
	nsPerKiB   int64
	collecting bool  // also for the sake of collection
	tableMax   int64 // bytes of a full memtable
}

// paceFor decides the pace. slack is Throttle.Slack. freeNs is the time in which collection
// frees a KiB, or 0 if that was not measured.
func paceFor(debt int64, use Use, replacing, slack float64, freeNs, memtableSize int64) pace {
	const second = float64(time.Second)
	p := pace{tableMax: memtableSize}
	ns := float64(debt) / debtUnit * second / (debtRate >> 10)
	surplus, live := use.surplus(replacing)
	share := surplus / max(live, float64(SmallDatabase*memtableSize))
	over := (share/slack - surplusFrom) / (surplusFull - surplusFrom)
	if over > 0 {
		free := float64(freeNs)
		if free == 0 {
			free = second / (freeRate >> 10)
		}
		ns += min(over, surplusPaceMax) * free
	}
	if replacing >= replacedMuch {
		p.tableMax = min(memtableSize, max(tableMin, memtableSize/8, int64(live/tablesPart)))
	}
	p.collecting, p.nsPerKiB = over > 0, int64(ns)
	return p
}

// MemtableMax returns how large a memtable may become, in bytes.
func (t *Throttle) MemtableMax() int64 { return t.tableMax.Load() }

// Collected says what a collection read and freed, in bytes, and when it began.
// Where collections follow each other, the time between them counts: compaction
// finds the garbage, which is a part of the price. The caller holds collecting.
func (t *Throttle) Collected(freed, read int64, started time.Time) {
	now := time.Now()
	since := started
	if started.Sub(t.lastCollected) < time.Second {
		since = t.lastCollected
	}
	t.lastCollected = now
	if freed < 1<<20 || freed < read/8 {
		return // too little to tell, or worth it only for an idle database
	}
	const least = int64(time.Second) / (freeRateMax >> 10)
	ns := max(least, int64(now.Sub(since))/(freed>>10))
	if old := t.freeNsPerKiB.Load(); old != 0 {
		ns = (7*old + ns) / 8
	}
	t.freeNsPerKiB.Store(ns)
}
