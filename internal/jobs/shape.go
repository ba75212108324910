package jobs

import (
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/work"
)

// pausingRuns is how many runs of level 0 may hold one key while no commit
// arrives. It is not so small that a writer that pauses again and again has small
// runs merged each time.
const pausingRuns = 4

// Shape returns what the tree should look like under a load, when what expired up
// to horizon may go. It changes nothing.
func (j *Jobs) Shape(load work.Load, horizon uint64) compact.Shape {
	s := compact.Shape{
		BaseSizeMin:    8 * j.o.MemtableSize,
		ValuesMin:      2 * j.o.MemtableSize,
		Replacing:      j.throttle.Replacing(),
		Slack:          j.throttle.Slack(),
		TableSize:      TableSize(j.o.MemtableSize),
		Idle:           load == work.Idle,
		Scarce:         j.space.Scarce(),
		NowMs:          horizon,
		AgeMs:          horizon + j.store.StoodMs(),
		Damaged:        j.quarantine.Tables(),
		BadValues:      j.quarantine.Values(),
		Versions:       j.o.VersionsMax(),
		VersionsOf:     j.versionsOf,
		OldestSnapshot: j.store.OldestSnapshot(),
	}
	j.discardable(&s)
	s.Hides = *j.hidden.Load()
	s.Screens = j.o.Screen != nil
	for _, t := range j.store.View().Memtables {
		if lo, hi, keys := t.Partials(); keys > 0 {
			s.Partials = append(s.Partials, compact.Span{Lo: lo, Hi: hi, Keys: keys})
		}
	}
	s.InputMax, s.OutputMax = j.space.Merge()
	if load != work.Busy {
		s.RunsMax = pausingRuns
	}
	return s
}

// Load returns the load that jobs go by. While space is scarce, they do everything that
// an idle database would do.
func (j *Jobs) Load() (now work.Load, falls time.Duration) {
	if j.space.Scarce() {
		return work.Idle, 0
	}
	return j.o.Activity.Load()
}

// Need returns how much space the next jobs need on v, in bytes. The next merge
// is what it would be with plenty of room. On a disk that fills up, merges become
// smaller and smaller, and would leave less and less for the next ones.
func (j *Jobs) Need(v *manifest.Version, horizon uint64) space.Need {
	next := int64(0)
	shape := j.Shape(work.Idle, horizon)
	shape.InputMax, shape.OutputMax = space.MergeMax, 0
	shape.Scarce = false // otherwise the need of scarce space would keep space scarce
	if plan, due := compact.PickNeeded(v, shape); due && !plan.Move && !plan.Drop {
		next = plan.InputBytes()
	}
	n := space.Need{Merge: space.MergeNeed(next, v.TableBytes(), TableSize(j.o.MemtableSize))}
	for _, f := range v.Values {
		if f.Values > 1 { // a file of one long value is never copied
			n.Copy = max(n.Copy, f.Size)
		}
	}
	return n
}

// Debt returns how far compaction is behind on v, in bytes.
func (j *Jobs) Debt(v *manifest.Version) int64 {
	return compact.Debt(v, j.Shape(work.Busy, j.store.Horizon()))
}

// Use returns how the value files of v are used. shape is the Shape under a load.
func (j *Jobs) Use(v *manifest.Version, flushed base.SeqNum, shape compact.Shape) throttle.Use {
	u := j.Garbage(v, flushed)
	u.Newest = compact.NewestValues(v, shape)
	return u
}

// Garbage is Use without Newest. It runs no picker.
func (j *Jobs) Garbage(v *manifest.Version, flushed base.SeqNum) (u throttle.Use) {
	u.All = v.ValueFileBytes
	for _, f := range v.Values {
		switch garbage := f.Bytes - min(f.Live, f.Bytes); {
		case garbage == 0:
		case f.Live > 0 && j.quarantine.HasValues(f.ValueFile), j.commits.Held.Kept(f.Num):
			u.Stuck += garbage // however slowly commits arrive
		case j.commits.Held.Holds(f.ValueFile, flushed):
			u.Pending += garbage
		default:
			u.Garbage += garbage
		}
	}
	return u
}
