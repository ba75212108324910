package jobs

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
)

const (
	// MoveFiles is the number of old files that are open at once. If values lie mixed in
	// more files, the mover opens a file for most of them.
	MoveFiles = 512
	// moveBuffers bounds the bytes that are read ahead in all of those together.
	moveBuffers = 16 << 20
	// moveAheadMax bounds the bytes that are read ahead in one of them.
	moveAheadMax = 1 << 20
	// MoveStep is the number of bytes after which the mover looks whether to go on.
	MoveStep = 256 << 10
)

// A mover writes values of a merge anew. It takes either the values of some files, which
// joins the files, or all values up to a number of bytes, which gathers them. It copies
// them as they are stored, by reads past the mappings. What they leave behind in the old
// files is garbage like any other.
//
// A value that cannot be read stays where it is. So does the rest of its file that has not
// been moved yet, and so do the values of files in quarantine.
//
// A collection may exchange an old file meanwhile. The slot of a reader keeps the
// one that the mover knows.
type mover struct {
	jobs    *Jobs
	out     *place.Writer
	slot    *state.Slot
	version *manifest.Version     // has the old files
	of      []base.FileNum        // whose values move, ascending; nil is all
	stays   map[base.FileNum]bool // the files that cannot be read
	from    map[base.FileNum]*moveSource
	uses    int   // of all sources
	ahead   int64 // bytes that each source reads ahead
	stop    func() error
	tell    func(moved int64) // is told now and then how many more bytes were moved; may be nil
	patient bool              // commits that arrive do not end it
	spares  bool              // lack of space ends it
	// left is how many bytes are still to be moved, unlooked how many may be moved
	// before the next look at whether to go on.
	left, unlooked int64
	ended          bool // what comes now stays where it is
	// last is the pointer whose value was copied last, and copied leads to the copy. The next
	// versions of a key may share its record: a renewal keeps it.
	last, copied values.Pointer
}

// A moveSource copies the values of an old file. used is the number of its last
// use.
type moveSource struct {
	*values.Copier
	used int
}

// begin prepares for the values that a plan moves.
func (m *mover) begin(plan *compact.Plan, stop func() error) (err error) {
	invariant.Check(plan.Gather == 0 || plan.Join == nil, "a plan gathers or joins: %s", plan)
	slot, s, err := m.jobs.store.HoldFiles()
	if err != nil {
		return err
	}
	m.slot, m.version, m.of, m.stop = slot, s.Version, plan.Join, stop
	m.left, m.unlooked, m.patient = int64(plan.Gather), MoveStep, plan.Patient || plan.Reason != compact.ReasonScattered
	m.spares = plan.Reason == compact.ReasonScattered
	if m.of != nil {
		m.left = math.MaxInt64
	}
	files := map[base.FileNum]bool{}
	m.stays = map[base.FileNum]bool{}
	for _, t := range plan.Tables() {
		for ref := range t.Values.All() {
			if f, ok := m.version.Value(ref.File); ok && m.jobs.quarantine.HasValues(f.ValueFile) {
				m.stays[ref.File] = true
			}
			if m.takes(ref.File) {
				files[ref.File] = true
			}
		}
	}
	m.ahead = min(moveAheadMax, moveBuffers/int64(max(1, min(len(files), MoveFiles))))
	m.from = map[base.FileNum]*moveSource{}
	return nil
}

// takes reports whether the values of a file are moved now.
func (m *mover) takes(num base.FileNum) bool {
	if m.ended || m.stays[num] {
		return false
	}
	if m.of == nil {
		return true
	}
	_, found := slices.BinarySearch(m.of, num)
	return found
}

// place is compact.Job.Place of a merge that moves values.
func (m *mover) place(e *base.Entry) (ref manifest.ValueRef, apart bool, err error) {
	if e.Meta.Kind != base.KindPointer {
		return ref, false, nil
	}
	p, err := values.DecodePointer(e.Value)
	if err != nil {
		return ref, true, err
	}
	if m.takes(p.File) {
		ref, err = m.move(e, p)
		if err == nil || !m.leave(p.File, err) {
			return ref, true, err
		}
	}
	return manifest.ValueRef{File: p.File, Bytes: values.RefBytes(p)}, true, nil
}

// move makes e point to a copy of the value that p leads to.
func (m *mover) move(e *base.Entry, p values.Pointer) (ref manifest.ValueRef, err error) {
	if p.File != m.last.File || p.Offset != m.last.Offset {
		if err = m.copy(e, p); err != nil {
			return ref, err
		}
	}
	to := m.copied
	to.Version = p.Version
	return m.out.Point(e, to), nil
}

// copy copies the value that p leads to. The copy keeps the version of the record, so
// pointers of all versions that share it go on to lead to it.
func (m *mover) copy(e *base.Entry, p values.Pointer) error {
	if err := m.look(p.Length()); err != nil {
		return err
	}
	var to values.Pointer
	// Where a remap leads is read from a mapping, which may fault.
	if err := fault.Guard(func() error {
		from, err := m.source(p.File)
		if err != nil {
			return err
		}
		out, err := m.out.File(p.Length())
		if err != nil {
			return err
		}
		to, err = from.Copy(out, values.Live{Pointer: p, Key: e.Key, Seq: p.Of(e.Seq)})
		return err
	}); err != nil {
		return err
	}
	m.left -= p.Length()
	m.last, m.copied = p, to
	return nil
}

// leave reports whether err says that an old file cannot be read. Then what was
// not moved of it yet stays where it is.
func (m *mover) leave(num base.FileNum, err error) bool {
	file, ok := m.version.Value(num)
	if !ok || !m.jobs.quarantine.NoteValues(file.ValueFile, err) {
		return false
	}
	m.stays[num] = true
	m.jobs.commits.JobFailed(fmt.Errorf("move values: %w", err))
	return true
}

// look checks now and then whether that many bytes more are to be moved. What is
// begun of a key is moved even if commits arrive; see cut.
func (m *mover) look(bytes int64) error {
	if m.unlooked -= bytes; m.unlooked >= 0 {
		return nil
	}
	if m.tell != nil {
		m.tell(MoveStep - m.unlooked)
	}
	m.unlooked = MoveStep
	if now, _ := m.jobs.o.Activity.Load(); now != work.Idle && !m.patient || m.jobs.space.Scarce() && m.spares {
		m.left = 0
	}
	return m.stop()
}

// cut is compact.Job.Cut of a merge that moves values. A table ends where the moved values
// end, so that the rest is a table for later.
func (m *mover) cut() bool {
	if m.ended || m.left > 0 {
		return false
	}
	m.ended = true
	return true
}

// source returns what copies the values of a file.
func (m *mover) source(num base.FileNum) (*values.Copier, error) {
	s := m.from[num]
	if s == nil {
		c, err := m.open(num)
		if err != nil {
			return nil, err
		}
		s = &moveSource{Copier: c}
		m.from[num] = s
	}
	m.uses++
	s.used = m.uses
	return s.Copier, nil
}

// open opens an old file. If there are too many, it closes the least recently used
// one.
func (m *mover) open(num base.FileNum) (*values.Copier, error) {
	if len(m.from) >= MoveFiles {
		if err := m.closeOldest(); err != nil {
			return nil, err
		}
	}
	file, ok := m.version.Value(num)
	if !ok {
		return nil, base.Corrupt(-1, "value file of a pointer", uint64(num), "a live one")
	}
	r, err := m.jobs.store.Files().OpenValues(file.ValueFile)
	if err != nil {
		return nil, err
	}
	c, err := values.NewCopier(r, m.ahead)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	c.Stop = m.stop
	return c, nil
}

func (m *mover) closeOldest() error {
	oldest := base.FileNum(0)
	least := math.MaxInt
	for num, s := range m.from {
		if s.used < least {
			oldest, least = num, s.used
		}
	}
	s := m.from[oldest]
	delete(m.from, oldest)
	return s.Close()
}

// end closes the old files and lets go of them.
func (m *mover) end() error {
	var errs []error
	for _, s := range m.from {
		errs = append(errs, s.Close())
	}
	m.jobs.store.Release(m.slot)
	return errors.Join(errs...)
}
