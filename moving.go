package stoat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

const (
	// moveReaders bounds how many old files are open at once. Where values lie
	// mixed in more, most are read from a file that is opened for them.
	moveReaders = 512
	// moveBuffers bounds the bytes that are read ahead in all of those together,
	// and moveAheadMax in one of them.
	moveBuffers  = 16 << 20
	moveAheadMax = 1 << 20
	// moveStep is after how many bytes a moving looks whether to go on.
	moveStep = 256 << 10
)

// movedInVain says what had been flushed when values were moved in vain. That is
// not tried again before there is more: a full disk would fill up over and over.
type movedInVain struct{ gathering, joining atomic.Uint64 }

// A moving is where the values of a merge go that are written anew: those of
// some files, which are joined by that, or all of them up to a number of bytes,
// which are gathered. They are copied as they are stored, by reads past the
// mappings. What they leave behind in the old files is garbage like any other.
//
// A value that cannot be read stays where it is, with all of its file that has not
// been moved yet, and so do those of files that are known to be bad: one value must
// not keep all others from being moved, for ever.
//
// A collection may exchange an old file meanwhile. The slot of a reader keeps
// the one that the moving knows.
type moving struct {
	placement
	slot    *readerSlot
	version *manifest.Version     // has the old files
	of      []base.FileNum        // whose values move, ascending; nil is all
	stays   map[base.FileNum]bool // the files that cannot be read
	from    map[base.FileNum]*movingSource
	uses    int // of all sources
	ahead   int64
	stop    func() error
	tell    func(moved int64) // is told now and then how much more was moved; nil is nobody
	patient bool              // whether somebody commits does not matter
	// left is how much is still to be moved, unlooked how much may be moved
	// before the next look at whether to go on.
	left, unlooked int64
	ended          bool // what comes now stays where it is
}

// A movingSource copies the values of an old file. used is the number of its
// last use.
type movingSource struct {
	*values.Copier
	used int
}

// begin prepares for the values that a plan moves.
func (m *moving) begin(plan *compact.Plan, stop func() error) (err error) {
	invariant.Check(plan.Gather == 0 || plan.Join == nil, "a plan gathers or joins: %s", plan)
	slot, state, err := m.db.holdState()
	if err != nil {
		return err
	}
	m.slot, m.version, m.of, m.stop = slot, state.Version, plan.Join, stop
	m.left, m.unlooked, m.patient = int64(plan.Gather), moveStep, plan.Reason != compact.ReasonScattered
	if m.of != nil {
		m.left = math.MaxInt64
	}
	files := map[base.FileNum]bool{}
	m.stays = map[base.FileNum]bool{}
	for _, tables := range plan.Inputs {
		for _, t := range tables {
			for _, ref := range t.Values {
				if f, ok := m.version.Value(ref.File); ok && m.db.bad.has(f.ValueFile) {
					m.stays[ref.File] = true
				}
				if m.takes(ref.File) {
					files[ref.File] = true
				}
			}
		}
	}
	m.ahead = min(moveAheadMax, moveBuffers/int64(max(1, min(len(files), moveReaders))))
	m.from = map[base.FileNum]*movingSource{}
	return nil
}

// takes reports whether the values of a file are moved now.
func (m *moving) takes(num base.FileNum) bool {
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
func (m *moving) place(e *base.Entry) (ref manifest.ValueRef, inFile bool, err error) {
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

// move copies the value that p leads to and makes e point to the copy.
func (m *moving) move(e *base.Entry, p values.Pointer) (ref manifest.ValueRef, err error) {
	if err = m.look(p.Length); err != nil {
		return ref, err
	}
	var to values.Pointer
	// Where a remap leads is read from a mapping, which may fault.
	if err = fault.Guard(func() error {
		from, err := m.source(p.File)
		if err == nil {
			err = m.ready(p.Length)
		}
		if err == nil {
			to, err = from.Copy(m.writer, values.Live{Pointer: p, Key: e.Key, Seq: e.Seq})
		}
		return err
	}); err != nil {
		return ref, err
	}
	m.left -= p.Length
	return m.point(e, to), nil
}

// leave reports whether err says that an old file cannot be read. Then what has not
// been moved of it stays where it is.
func (m *moving) leave(num base.FileNum, err error) bool {
	file, ok := m.version.Value(num)
	if !ok || !m.db.bad.note(file.ValueFile, err) {
		return false
	}
	m.stays[num] = true
	m.db.backgroundFailed(fmt.Errorf("move values: %w", err))
	return true
}

// look finds out now and then whether so many bytes more are to be moved. What
// is begun of a key is moved even if somebody commits; see cut.
func (m *moving) look(bytes int64) error {
	if m.unlooked -= bytes; m.unlooked >= 0 {
		return nil
	}
	if m.tell != nil {
		m.tell(moveStep - m.unlooked)
	}
	m.unlooked = moveStep
	if now, _ := m.db.background.quiet.calm(); now != idling && !m.patient {
		m.left = 0
	}
	return m.stop()
}

// cut is compact.Job.Cut of a merge that moves values: a table ends where the
// values end that are moved, so that what is left is a table for later.
func (m *moving) cut() bool {
	if m.ended || m.left > 0 {
		return false
	}
	m.ended = true
	return true
}

// source returns what copies the values of a file.
func (m *moving) source(num base.FileNum) (*values.Copier, error) {
	s := m.from[num]
	if s == nil {
		c, err := m.open(num)
		if err != nil {
			return nil, err
		}
		s = &movingSource{Copier: c}
		m.from[num] = s
	}
	m.uses++
	s.used = m.uses
	return s.Copier, nil
}

// open opens an old file. If there are too many, the one that was not used for
// longest is closed.
func (m *moving) open(num base.FileNum) (*values.Copier, error) {
	if len(m.from) >= moveReaders {
		if err := m.closeOldest(); err != nil {
			return nil, err
		}
	}
	file, ok := m.version.Value(num)
	if !ok {
		return nil, base.Corrupt(-1, "value file of a pointer", uint64(num), "a live one")
	}
	r, err := m.db.tables.OpenValues(file.ValueFile)
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

func (m *moving) closeOldest() error {
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
func (m *moving) end() error {
	var errs []error
	for _, s := range m.from {
		errs = append(errs, s.Close())
	}
	m.db.release(m.slot)
	return errors.Join(errs...)
}
