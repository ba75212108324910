package stoat

import (
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Gathering restores the order of values. A flush writes values in the order
// of their keys, but each flush to files of its own, and collection rewrites
// each file by itself: after much overwriting, neighbouring keys have their
// values in many files. A gathering is a merge of tables of the last level that
// also writes their values anew, one behind the other. What they leave behind in
// the old files is garbage like any other, and most of those files are dead when
// the gathering has passed over all of the keys.
//
// It is done when nobody commits, and ends early when somebody does.

// What gathering is worth: see decision 0017.
const (
	// gatherShare is the share of jumps of values that lie mixed in a hundred
	// files. Then nine tenths of them or more were written since they last lay in
	// order.
	gatherShare = 0.99
	// gatherShareAsked is the same when somebody asks for a database that is as
	// fast as it can be.
	gatherShareAsked = 1.0 / 8
	// gatherRecordMax keeps values from being gathered that are as long as a page
	// or longer: they bring nothing along that nobody wants.
	gatherRecordMax = 4 << 10
	// gatherRecordMaxAsked is the same when somebody asks: to jump costs about as
	// much as to read so much.
	gatherRecordMaxAsked = 64 << 10
	// gatherSpace is what garbage and the copies of one gathering may take
	// together, in parts of the values that are live: the directory holds both
	// copies of what moves until the old files are collected. Below gatherSpaceMin
	// a gathering would not be worth the tables that it rewrites: garbage is
	// collected first.
	gatherSpace    = 0.4
	gatherSpaceMin = 0.125
	// gatherPointersMin is how many values of a table make a walk.
	gatherPointersMin = 64
)

// gatherIdle gathers what is most worth it, and reports whether anything was.
func (d *DB) gatherIdle() (due bool, err error) {
	d.compacting.Lock()
	defer d.compacting.Unlock()
	plan, due := d.pickGathering(false)
	if !due {
		return false, nil
	}
	if err = d.compact(plan, d.stopped); err != nil {
		d.inVain.gathering.Store(uint64(d.manifest.State().FlushedSeq))
	}
	return true, err
}

// gatheringDue reports whether a gathering is about to make garbage of files
// that need not be collected before.
func (d *DB) gatheringDue() bool {
	_, due := d.pickGathering(false)
	return due
}

// pickGathering returns what is to be gathered next, asked for or not, if there
// is anything and if garbage leaves room for it.
func (d *DB) pickGathering(asked bool) (compact.Plan, bool) {
	state := d.manifest.State()
	if !asked && d.inVain.gathering.Load() == uint64(state.FlushedSeq) {
		return compact.Plan{}, false
	}
	room, _ := d.gatherRoom(&state)
	if room == 0 {
		return compact.Plan{}, false
	}
	g, shape := d.gathering(asked)
	g.Bytes = room
	plan, due := compact.PickGathering(state.Version, shape, g)
	if asked {
		plan.Reason = compact.ReasonManual
	}
	return plan, due
}

// gatherRoom returns how many bytes garbage leaves room for to be gathered now, and
// how many there will be room for when that has been collected. 0 is too few.
func (d *DB) gatherRoom(state *manifest.State) (now, later uint64) {
	use := d.spaceUse(state.Version, state.FlushedSeq)
	// A small database is taken to be as large as some memtables, as admission does.
	live := max(float64(use.all-min(use.all, use.garbage)), float64(surplusBase*d.opts.MemtableSize))
	garbage := float64(use.garbage) + float64(d.garbage.valueBytes.Load())
	// On the disk it may take half of what others may add.
	disk := float64(d.room.free.Load()-d.room.reserve.Load()) / 2
	enough := func(room float64) uint64 {
		if room = min(room, disk); room < gatherSpaceMin*live || d.room.scarce() {
			return 0
		}
		return uint64(room)
	}
	return enough(gatherSpace*live - garbage), enough(gatherSpace * live)
}

// gathering returns what is worth gathering, asked for or not.
func (d *DB) gathering(asked bool) (compact.Gathering, compact.Shape) {
	g := compact.Gathering{Share: gatherShare, PointersMin: gatherPointersMin, RecordMax: gatherRecordMax}
	shape := d.shape(idling)
	if asked {
		g.Share, g.RecordMax = gatherShareAsked, gatherRecordMaxAsked
		shape.Damaged = nil // who asks is to learn of it, or the device gives it by now
	}
	return g, shape
}
