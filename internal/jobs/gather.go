package jobs

import (
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/work"
)

// Gathering restores the order of values. A flush writes values in the order of
// their keys, but each flush to files of its own, and collection rewrites each file
// by itself. After much overwriting, neighbouring keys have their values in many
// files. A gathering is a merge of tables of the last level that also writes their
// values anew, one after the other. What it leaves behind in the old files is
// garbage like any other. It begins when no commit arrives. A commit ends a large gathering
// early, and not a small one. See decisions 0017 and 0049.

const (
	// gatherShare is Gathering.Share: the share of jumps, from 0 to 1, from which values
	// are gathered. Values that lie mixed evenly in a hundred files have it. Then nine
	// tenths of them or more were written since they last lay in order.
	gatherShare = 0.99
	// gatherShareScanned is the same for a table that iterators read much: two thirds of the
	// values or more were written since they last lay in order.
	gatherShareScanned = 0.9
	// gatherShareManual is the same for a caller that wants a database as fast as it
	// can be.
	gatherShareManual = 1.0 / 8
	// gatherRecordMax is the size in bytes from which values are not gathered: values
	// of a page or longer bring no unwanted neighbours into memory.
	gatherRecordMax = 4 << 10
	// gatherRecordMaxMost is the same for a caller, and for a table that iterators read much:
	// a jump costs about as much as reading that many bytes.
	gatherRecordMaxMost = 64 << 10
	// gatherSpace is what garbage and the copies of one gathering may take together,
	// in parts of the live values; see also gatherWhole. The directory holds both copies of
	// what moves until the old files are collected.
	gatherSpace = 0.4
	// gatherSpaceMin is the part below which a gathering is not worth the tables that
	// it rewrites: garbage is collected first.
	gatherSpaceMin = 0.125
	// gatherWhole is how many full memtables of values are gathered at once, however much
	// garbage there is. The files that they leave behind are then dropped whole. In smaller
	// steps, what is left in those files is copied between two steps. Commits do not end such
	// a gathering: it takes a few seconds, and half of it would leave only more garbage.
	gatherWhole = 32
	// gatherWholeMax bounds that, in bytes.
	gatherWholeMax = 1 << 30
	// gatherWholeSpare is a divisor: such a gathering takes at most 1/gatherWholeSpare of the
	// space that others may use.
	gatherWholeSpare = 4
	// gatherPointersMin is Gathering.PointersMin: a table with fewer values in value
	// files is not worth gathering.
	gatherPointersMin = 64
)

// GatherIdle gathers the values that are most worth it, and reports whether there were any.
func (j *Jobs) GatherIdle() (due bool, err error) {
	j.Compacting.Lock()
	defer j.Compacting.Unlock()
	plan, due := j.PickGathering(false)
	if !due {
		return false, nil
	}
	if err = j.Run(plan, j.stopped, nil); err != nil {
		j.gatherFailed.Store(uint64(j.flushedSeq()))
	}
	return true, err
}

// GatheringDue reports whether a gathering is about to make garbage of files that
// need not be collected before.
func (j *Jobs) GatheringDue() bool {
	_, due := j.PickGathering(false)
	return due
}

// PickGathering returns what to gather next, if there is anything and if garbage
// leaves room for it. manual says that a caller waits for it.
func (j *Jobs) PickGathering(manual bool) (compact.Plan, bool) {
	s := j.store.State()
	if !manual && j.gatherFailed.Load() == uint64(s.FlushedSeq) {
		return compact.Plan{}, false
	}
	g, shape := j.Gathering(manual)
	scattered := g.Scattered(s.Version, shape)
	if g.Bytes, _ = j.GatherRoom(&s, scattered); g.Bytes == 0 {
		return compact.Plan{}, false
	}
	plan, due := compact.PickGathering(s.Version, shape, g)
	plan.Patient = scattered <= j.gatherWhole()
	if manual {
		plan.Reason = compact.ReasonManual
	}
	return plan, due
}

// gatherWhole is how many bytes of values are gathered at once.
func (j *Jobs) gatherWhole() uint64 {
	return min(gatherWholeMax, uint64(gatherWhole*j.o.MemtableSize))
}

// GatherRoom returns how many bytes of values may be gathered now, beside the garbage, and
// how many once the garbage is collected. 0 means that there is too little room. scattered is
// how many are worth gathering.
func (j *Jobs) GatherRoom(s *manifest.State, scattered uint64) (now, later uint64) {
	use := j.Garbage(s.Version, s.FlushedSeq)
	in := gatherInputs{
		live:     use.All - min(use.All, use.Garbage),
		garbage:  use.Garbage,
		obsolete: j.store.ObsoleteValueBytes(),
		least:    throttle.SmallDatabase * j.o.MemtableSize,
		spare:    j.space.Spare(),
		scarce:   j.space.Scarce(),
	}
	if scattered <= j.gatherWhole() {
		in.whole = scattered
	}
	return gatherRoom(in)
}

// gatherInputs is what the room for gathering depends on, in bytes.
type gatherInputs struct {
	live, garbage uint64 // of the value files
	obsolete      int64  // of value files that wait to be deleted
	least         int64  // of live values; gatherRoom counts no database as smaller
	spare         int64  // of the disk, which others may use
	scarce        bool
	whole         uint64 // all that is worth gathering, if that can be done at once
}

// gatherRoom is GatherRoom. A gathering may take half of the space that others may use.
func gatherRoom(in gatherInputs) (now, later uint64) {
	live := max(float64(in.live), float64(in.least))
	garbage := float64(in.garbage) + float64(in.obsolete)
	whole := uint64(0)
	if int64(in.whole) <= in.spare/gatherWholeSpare && in.obsolete <= int64(in.whole) && !in.scarce {
		whole = in.whole
	}
	enough := func(room float64) uint64 {
		if room = min(room, float64(in.spare)/2); room < gatherSpaceMin*live || in.scarce {
			return whole
		}
		return max(uint64(room), whole)
	}
	return enough(gatherSpace*live - garbage), enough(gatherSpace * live)
}

// Gathering returns what is worth gathering.
func (j *Jobs) Gathering(manual bool) (compact.Gathering, compact.Shape) {
	g := compact.Gathering{
		Share: gatherShare, PointersMin: gatherPointersMin, RecordMax: gatherRecordMax,
		Scanned: j.store.Files().Scanned, ScannedShare: gatherShareScanned, ScannedRecordMax: gatherRecordMaxMost,
	}
	shape := j.Shape(work.Idle, j.store.Horizon())
	if manual {
		g.Share, g.RecordMax = gatherShareManual, gatherRecordMaxMost
		shape.Damaged = nil // the caller is to learn of it, or the device gives it by now
	}
	return g, shape
}
