package manifest

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
)

// An Optional is a field of an edit: a value, or unset for no change.
type Optional[T any] struct {
	Value T
	Set   bool
}

// Some returns an Optional that is set.
func Some[T any](v T) Optional[T] { return Optional[T]{Value: v, Set: true} }

// into stores the value in dst if it is set.
func (o Optional[T]) into(dst *T) {
	if o.Set {
		*dst = o.Value
	}
}

// An Edit is a change of the state. Fields that are not set change nothing. An
// edit is atomic.
type Edit struct {
	FormatVersion Optional[uint32]
	ID            Optional[[16]byte]
	HashSeed      Optional[uint64]
	// Spans replaces all spans; there are few.
	Spans       Optional[[]base.LogSpan]
	LastSeq     Optional[base.SeqNum]
	ClockHighMs Optional[uint64]
	NextFile    Optional[uint64]
	FlushedSeq  Optional[base.SeqNum]

	// DropTables and DropValues happen before AddTables and AddValues: a moved
	// table is dropped from one level and added to another. An added value file
	// replaces a live one with the same number. Added tables and value files
	// belong to the manifest, and the caller must not change them.
	DropTables []Place
	AddTables  []*Table
	DropValues []base.FileNum
	AddValues  []*ValueFile

	// RequiredFeatures and OptionalFeatures add to the lists of features. Names
	// ascend.
	RequiredFeatures, OptionalFeatures []string
	// ForgetKeyspaces removes dropped keyspaces from the table. It happens before
	// PutKeyspaces, which adds or replaces keyspaces, ascending by number. They
	// belong to the manifest, and the caller must not change them.
	ForgetKeyspaces []uint32
	PutKeyspaces    []*Keyspace
	// NextKeyspace must exceed the numbers of all keyspaces after the edit.
	NextKeyspace Optional[uint32]

	// Unknown holds the fields of a later stoat, ascending by tag.
	Unknown []Field
}

// changesTree reports whether e adds or drops tables or value files.
func (e *Edit) changesTree() bool {
	return len(e.DropTables)+len(e.AddTables)+len(e.DropValues)+len(e.AddValues) > 0
}

var errFixed = errors.New("manifest: an edit changes a fixed field")

// check reports why e cannot follow s, or returns nil.
func (e Edit) check(s State) error {
	fresh := s.FormatVersion == 0
	switch {
	case fresh && (!e.FormatVersion.Set || e.FormatVersion.Value == 0):
		return errors.New("manifest: the first edit has no format version")
	case !fresh && e.ID.Set && e.ID.Value != s.ID:
		return fmt.Errorf("%w: ID %x to %x", errFixed, s.ID, e.ID.Value)
	case !fresh && e.HashSeed.Set && e.HashSeed.Value != s.HashSeed:
		return fmt.Errorf("%w: hash seed %#x to %#x", errFixed, s.HashSeed, e.HashSeed.Value)
	}
	if e.Spans.Set {
		if err := checkSpans(e.Spans.Value); err != nil {
			return err
		}
	}
	if e.ClockHighMs.Value > base.TimeMsMax {
		return fmt.Errorf("manifest: the clock is at %d, want less than 2^63", e.ClockHighMs.Value)
	}
	if last := max(e.LastSeq.Value, e.FlushedSeq.Value); last > base.SeqNumMax {
		return fmt.Errorf("manifest: a sequence number is %d, want at most %d", last, base.SeqNumMax)
	}
	if e.NextFile.Value > numberMax {
		return fmt.Errorf("manifest: the next file number is %d, want at most %d", e.NextFile.Value, uint64(numberMax))
	}
	return errors.Join(
		checkRise("format version", s.FormatVersion, e.FormatVersion),
		checkRise("last sequence number", s.LastSeq, e.LastSeq),
		checkRise("clock", s.ClockHighMs, e.ClockHighMs),
		checkRise("next file number", s.NextFile, e.NextFile),
		checkRise("flushed sequence number", s.FlushedSeq, e.FlushedSeq),
		checkRise("next keyspace", max(s.NextKeyspace, 1), e.NextKeyspace),
	)
}

// checkRise reports a value that would decrease.
func checkRise[T uint32 | uint64 | base.SeqNum](name string, old T, o Optional[T]) error {
	if o.Set && o.Value < old {
		return fmt.Errorf("manifest: %s goes back from %d to %d", name, old, o.Value)
	}
	return nil
}

// checkSpans reports spans that are out of order, and unsealed spans before the
// last one.
func checkSpans(spans []base.LogSpan) error {
	for i, s := range spans {
		last := i == len(spans)-1
		switch {
		case max(s.First.Number, s.First.File, s.EndNumber) > numberMax:
			return fmt.Errorf("manifest: span %d has a number above %d", i, uint64(numberMax))
		case !s.Sealed && !last:
			return fmt.Errorf("manifest: span %d of %d is open", i, len(spans))
		case s.Sealed && s.EndNumber < s.First.Number:
			return fmt.Errorf("manifest: span %d ends in segment %d before it starts in %d",
				i, s.EndNumber, s.First.Number)
		case s.Sealed && s.End < 0:
			return fmt.Errorf("manifest: span %d ends at offset %d", i, s.End)
		case !last && s.EndNumber >= spans[i+1].First.Number:
			return fmt.Errorf("manifest: span %d ends in segment %d, the next one starts in %d",
				i, s.EndNumber, spans[i+1].First.Number)
		}
	}
	return nil
}
