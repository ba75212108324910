package jobs

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// How much a merge writes that drops what deletions hide, no version tells: some
// deletions are of the same key, others of keys that are not there. Where the
// inputs fit in what is free that does not matter. Where they do not, the compactor
// does the merge once without writing: reading costs time, and a full disk has time.
// A merge for which there is no room is not measured again, and others are.
//
// Deletions always give the space back in the end, because of these together:
//
//   - What is deleted comes to tables: jobs leave the flush reserve.
//   - When all that is hidden lies in tables, merging a whole column of them
//     (compact.Columns) leaves only what can be read. When all is deleted, that is
//     nothing, which fits.
//   - A merge that did not fit is measured again when its tables have changed, when a
//     snapshot has ended that needed what it hides, and when there is more room.
//   - What is measured is finite: each merge once as long as nothing changes.

// errTooMuch ends a merge that is only measured, and would write too much.
var errTooMuch = errors.New("stoat: there is no room for what a merge writes")

// measure returns how many bytes a merge would write, or at least more than most if
// it would be that. The caller holds Compacting.
func (j *Jobs) measure(plan *compact.Plan, most int64) (bytes int64, err error) {
	newFile := func() (compact.NewFile, error) {
		return compact.NewFile{File: &measuredFile{all: &bytes, most: most}, Salt: salt()}, nil
	}
	err = fault.Guard(func() error {
		_, err := j.merge(plan, newFile, &mover{jobs: j, out: place.NewWriter(j.o.Place)}, j.stopped)
		return err
	})
	if errors.Is(err, errTooMuch) {
		return bytes, nil
	}
	if err != nil {
		j.quarantine.NoteTables(plan.Drops(), err)
	}
	return bytes, err
}

// A measuredFile is a file of which only the size matters.
type measuredFile struct {
	vfs.File // nil: a writer of tables calls nothing else
	size     int64
	all      *int64 // bytes that all files take of the disk
	most     int64  // that they may take
}

// blocks rounds bytes up to what they take of the disk.
func blocks(bytes int64) int64 {
	return (bytes + space.BlockSize - 1) / space.BlockSize * space.BlockSize
}

func (f *measuredFile) WriteAt(p []byte, off int64) (int, error) {
	if end := off + int64(len(p)); end > f.size {
		*f.all += blocks(end) - blocks(f.size)
		f.size = end
	}
	if *f.all > f.most {
		return 0, errTooMuch
	}
	return len(p), nil
}

func (f *measuredFile) Name() string                 { return "" }
func (f *measuredFile) SyncRange(off, n int64) error { return nil }
func (f *measuredFile) WaitRange(off, n int64) error { return nil }
func (f *measuredFile) SyncData() error              { return nil }
func (f *measuredFile) Close() error                 { return nil }

// measurements is what is known of merges that would not fit on the disk.
type measurements struct {
	some  atomic.Bool           // some are known
	until atomic.Int64          // no merge is measured before this moment of work.Now
	known map[mergeKey]measured // guarded by Compacting
}

// A mergeKey identifies a merge: a hash of its tables and its level, whether a
// snapshot may need what it hides, and whether it has nothing below.
type mergeKey struct {
	tables       uint64
	held, bottom bool
}

// A measured is a merge that would not fit, when it might write so many bytes at
// most. Where values expire, it may write less later.
type measured struct {
	inputs  []*manifest.Table
	most    int64 // bytes
	at      int64 // of work.Now
	expires bool
}

// over reports whether measuring it again may help when so many bytes may be
// written.
func (m *measured) over(most int64) bool {
	return space.MuchMore(most, m.most) || m.expires && work.Now()-m.at >= int64(space.RetryMax)
}

func keyOf(plan *compact.Plan, s *compact.Shape) mergeKey {
	var numbers []byte
	key := mergeKey{bottom: plan.Bottom}
	for _, tables := range plan.Inputs {
		for _, t := range tables {
			numbers = binary.LittleEndian.AppendUint64(numbers, uint64(t.Num))
			key.held = key.held || t.LargestSeq > s.OldestSnapshot
		}
	}
	key.tables = base.Hash(numbers, uint64(plan.OutputLevel))
	return key
}

// measurePart bounds the time for measuring merges that do not fit, to one of so
// many parts: a writer that deletes much changes the tables again and again.
const measurePart = 8

// pause returns for how long no merge is measured.
func (m *measurements) pause() time.Duration {
	if until := m.until.Load(); until != 0 {
		return time.Duration(max(0, until-work.Now()))
	}
	return 0
}

// useless reports whether a merge need not be measured. The caller holds
// Compacting.
func (m *measurements) useless(plan *compact.Plan, s *compact.Shape) bool {
	if m.pause() > 0 {
		return true
	}
	if len(m.known) == 0 {
		return false
	}
	tried, ok := m.known[keyOf(plan, s)]
	return ok && !tried.over(s.OutputMax)
}

// note takes note of a merge that does not fit. The caller holds Compacting.
func (m *measurements) note(plan *compact.Plan, s *compact.Shape) {
	invariant.Check(!m.useless(plan, s), "measured again although nothing changed: %s", plan.String())
	now := measured{most: s.OutputMax, at: work.Now()}
	for _, tables := range plan.Inputs {
		now.inputs = append(now.inputs, tables...)
	}
	now.expires = slices.ContainsFunc(now.inputs, func(t *manifest.Table) bool { return t.Expiring > 0 })
	if m.known == nil {
		m.known = map[mergeKey]measured{}
	}
	m.known[keyOf(plan, s)] = now
	m.some.Store(true)
}

// forget forgets merges of which some inputs are not in v any more. The caller
// holds Compacting.
func (m *measurements) forget(v *manifest.Version) {
	if len(m.known) == 0 {
		return
	}
	there := map[*manifest.Table]bool{}
	for _, tables := range v.Levels {
		for _, t := range tables {
			there[t] = true
		}
	}
	maps.DeleteFunc(m.known, func(_ mergeKey, tried measured) bool {
		return slices.ContainsFunc(tried.inputs, func(t *manifest.Table) bool { return !there[t] })
	})
	m.some.Store(len(m.known) > 0)
}

// mergeWhereItFits runs a plan that was picked for s if there is room for what it
// writes, and if worth says that it writes little enough. The caller holds
// Compacting.
func (j *Jobs) mergeWhereItFits(plan *compact.Plan, s *compact.Shape, worth func(writes int64) bool) error {
	writes := plan.InputBytes()
	merges := !plan.Drop && !plan.Move
	if merges && writes > s.OutputMax {
		began := work.Now()
		var err error
		if writes, err = j.measure(plan, s.OutputMax); err != nil {
			return err
		}
		if writes > s.OutputMax || !worth(writes) {
			j.measured.note(plan, s)
			if now := work.Now(); !j.o.Executor.Manual {
				j.measured.until.Store(now + measurePart*(now-began))
			}
			return nil // and on with others
		}
	}
	err := j.Run(*plan, j.space.Sparing(j.stopped), nil)
	if merges {
		j.space.MergeEnded(writes, err)
	}
	return err
}
