package stoat

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
)

// How much a merge writes that drops what deletions hide, no version tells: some
// deletions are of the same key, others of keys that are not there. Where the inputs
// fit in what is free that does not matter. Where they do not, the merge is done
// once without writing: to read costs time, and time is what a full disk has. So
// a merge for which there is no room takes it from nobody, and says nothing about
// others, which may fit: it is not measured again, and they are.
//
// Deletions always give the space back in the end, because of these together:
//
//   - What is deleted comes to tables: jobs leave what the log and flushes need.
//   - When all that is hidden lies in tables, merging a whole column of them
//     (compact.Columns) leaves only what can be read. When all is deleted, that is
//     nothing, which fits.
//   - What was measured in vain is measured again when its tables have changed, when
//     a snapshot has ended that needed what it hides, and when there is more room.
//   - What is measured is finite: each merge once as long as nothing changes.

// errTooMuch ends a merge that is only measured, and would write too much.
var errTooMuch = errors.New("stoat: there is no room for what a merge writes")

// measure returns how many bytes a merge would write, or at least more than most if
// it would be that. The caller holds compacting.
func (d *DB) measure(plan *compact.Plan, most int64) (bytes int64, err error) {
	newFile := func() (compact.NewFile, error) {
		return compact.NewFile{File: &measuredFile{all: &bytes, most: most}, Salt: rand.Uint64()}, nil
	}
	err = fault.Guard(func() error {
		_, err := d.merge(plan, newFile, &moving{placement: placement{db: d}}, d.stopped)
		return err
	})
	if errors.Is(err, errTooMuch) {
		return bytes, nil
	}
	if err != nil {
		d.damaged.note(plan, err)
	}
	return bytes, err
}

// A measuredFile is a file of which nobody needs to know but how large it is.
type measuredFile struct {
	vfs.File // none: a writer of tables calls nothing else
	size     int64
	all      *int64 // that several files take of the disk
	most     int64  // that they may take
}

// blockSize is the unit in which files take space of the disk.
const blockSize = 4 << 10

func blocks(bytes int64) int64 { return (bytes + blockSize - 1) / blockSize * blockSize }

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

// A measuring is what is known of merges that were measured in vain: there was no room,
// or too little would have gone.
type measuring struct {
	known map[measuredKey]measured // guarded by compacting
	some  atomic.Bool              // there are some known
	until atomic.Int64             // nothing is measured before, of monotonic, if not 0
}

// A measuredKey names the inputs of a merge, and says whether a snapshot may need what
// they hide, and whether deletions may go.
type measuredKey struct {
	tables       uint64
	held, bottom bool
}

// A measured is a merge that was measured in vain, when it might write so many bytes
// at most. Where values expire, it may write less later than at that moment.
type measured struct {
	inputs   []*manifest.Table
	most, at int64 // at is of monotonic
	expires  bool
}

// over reports whether to measure may be of use again when so much may be written.
func (m *measured) over(most int64) bool {
	return muchMore(most, m.most) || m.expires && monotonic()-m.at >= int64(shortMax)
}

func keyOf(plan *compact.Plan, s *compact.Shape) measuredKey {
	var numbers []byte
	key := measuredKey{bottom: plan.Bottom}
	for _, tables := range plan.Inputs {
		for _, t := range tables {
			numbers = binary.LittleEndian.AppendUint64(numbers, uint64(t.Num))
			key.held = key.held || t.LargestSeq > s.OldestSnapshot
		}
	}
	key.tables = base.Hash(numbers, uint64(plan.OutputLevel))
	return key
}

// measuredPart is the part of the time that measuring in vain takes at most, one of so
// many: who deletes much changes the tables again and again.
const measuredPart = 8

// pause returns for how long nothing is measured.
func (m *measuring) pause() time.Duration {
	if until := m.until.Load(); until != 0 {
		return time.Duration(max(0, until-monotonic()))
	}
	return 0
}

// useless reports whether a merge need not be measured. The caller holds compacting.
func (m *measuring) useless(plan *compact.Plan, s *compact.Shape) bool {
	if m.pause() > 0 {
		return true
	}
	if len(m.known) == 0 {
		return false
	}
	tried, ok := m.known[keyOf(plan, s)]
	return ok && !tried.over(s.OutputMax)
}

// note takes note of a merge that was measured in vain. The caller holds compacting.
func (m *measuring) note(plan *compact.Plan, s *compact.Shape) {
	invariant.Check(!m.useless(plan, s), "measured again in vain: %s", plan.String())
	now := measured{most: s.OutputMax, at: monotonic()}
	for _, tables := range plan.Inputs {
		now.inputs = append(now.inputs, tables...)
	}
	now.expires = slices.ContainsFunc(now.inputs, func(t *manifest.Table) bool { return t.Expiring > 0 })
	if m.known == nil {
		m.known = map[measuredKey]measured{}
	}
	m.known[keyOf(plan, s)] = now
	m.some.Store(true)
}

// forget forgets the merges of which some inputs are not in v any more. The caller
// holds compacting.
func (m *measuring) forget(v *manifest.Version) {
	if len(m.known) == 0 {
		return
	}
	there := map[*manifest.Table]bool{}
	for _, tables := range v.Levels {
		for _, t := range tables {
			there[t] = true
		}
	}
	maps.DeleteFunc(m.known, func(_ measuredKey, tried measured) bool {
		return slices.ContainsFunc(tried.inputs, func(t *manifest.Table) bool { return !there[t] })
	})
	m.some.Store(len(m.known) > 0)
}

// mergeWhereItFits carries out a plan that was picked for s if there is room for what
// it writes and that is little enough to be worth it. The caller holds compacting.
func (d *DB) mergeWhereItFits(plan *compact.Plan, s *compact.Shape, worth func(writes int64) bool) error {
	writes := plan.InputBytes()
	merges := !plan.Drop && !plan.Move
	if merges && writes > s.OutputMax {
		began := monotonic()
		var err error
		if writes, err = d.measure(plan, s.OutputMax); err != nil {
			return err
		}
		if writes > s.OutputMax || !worth(writes) {
			d.measuring.note(plan, s)
			if now := monotonic(); d.driver == nil {
				d.measuring.until.Store(now + measuredPart*(now-began))
			}
			return nil // and on with others
		}
	}
	err := d.compact(*plan, d.room.sparing(d.stopped))
	if merges {
		d.room.merged(writes, err)
	}
	return err
}

// tidyColumn merges a whole column of tables, if nothing else gives the space back of
// what its deletions hide. It reports whether there was one to be looked at. The
// caller holds compacting.
func (d *DB) tidyColumn(v *manifest.Version, s *compact.Shape) (due bool, err error) {
	for _, plan := range compact.Columns(v, *s) {
		if !d.measuring.useless(&plan, s) {
			return true, d.mergeWhereItFits(&plan, s, func(writes int64) bool {
				return compact.WorthColumn(plan.InputBytes(), writes)
			})
		}
	}
	return false, nil
}
