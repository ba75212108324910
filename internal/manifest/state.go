package manifest

import (
	"errors"

	"github.com/stoatdb/stoat/internal/base"
)

// FormatVersion is the format version of new databases, and the latest one that
// this code understands.
const FormatVersion = 1

// A State is the content of the manifest. It is a value: Apply returns a new
// one. The elements of Spans are never changed.
type State struct {
	// FormatVersion is the version of the formats in the directory.
	FormatVersion uint32
	// ID identifies the database. It never changes.
	ID [16]byte
	// HashSeed is the seed of base.Hash. It never changes.
	HashSeed uint64
	// Spans are the parts of the log to replay, in order. All but the last are
	// sealed. It is nil if there are none.
	Spans []base.LogSpan
	// LastSeq is a sequence number in use. Open may find a higher one in the
	// log. Every new transaction gets a higher one.
	LastSeq base.SeqNum
	// ClockHighMs is a past time in Unix milliseconds. The clock of the
	// database never shows an earlier time.
	ClockHighMs uint64
	// NextFile is greater than every file number used for tables and value
	// files.
	NextFile uint64
	// FlushedSeq is a sequence number. Everything up to it is in tables.
	FlushedSeq base.SeqNum
	// RequiredFeatures and OptionalFeatures are the features of the database, in
	// order. They are nil if there are none. They are never changed.
	RequiredFeatures, OptionalFeatures []string
	// Keyspaces is the table of keyspaces, ascending by number. The first one is
	// the default keyspace. It is nil only in a State that neither Load nor Apply
	// made. It is never changed.
	Keyspaces []*Keyspace
	// NextKeyspace is greater than every number that a keyspace ever had.
	NextKeyspace uint32
	// Unknown holds fields of a later stoat, ascending by tag.
	Unknown []Field
	// Version holds the tables and value files. It is nil, for none, only in a
	// State that neither Load nor Apply made.
	Version *Version
}

// Apply returns the state after e. If e cannot follow s, it fails and changes
// nothing: the cause is an error of the caller, or corruption.
func (s State) Apply(e Edit) (State, error) {
	d := newDraft(s.Version)
	d.keyspaces.table = s.Keyspaces
	next, err := s.apply(&e, d)
	if err != nil {
		return s, err
	}
	next.finish(d)
	return next, nil
}

// finish takes over what d carries. d must not be used after it.
func (s *State) finish(d *draft) { s.Version, s.Keyspaces = d.version(), d.keyspaces.table }

// apply is Apply for a sequence of edits. d carries the version and the keyspaces
// from one to the next. After an error, the caller must discard d.
func (s State) apply(e *Edit, d *draft) (State, error) {
	if err := e.check(s); err != nil {
		return s, err
	}
	next := max(s.NextKeyspace, 1)
	s.NextKeyspace = next
	e.NextKeyspace.into(&s.NextKeyspace)
	if err := d.keyspaces.apply(e, next, s.NextKeyspace); err != nil {
		return s, err
	}
	var errs [3]error
	s.RequiredFeatures, errs[0] = addFeatures(s.RequiredFeatures, e.RequiredFeatures)
	s.OptionalFeatures, errs[1] = addFeatures(s.OptionalFeatures, e.OptionalFeatures)
	s.Unknown, errs[2] = addUnknown(s.Unknown, e.Unknown)
	if err := errors.Join(errs[:]...); err != nil {
		return s, err
	}
	if err := checkShifts(s.RequiredFeatures, e.AddTables); err != nil {
		return s, err
	}
	e.FormatVersion.into(&s.FormatVersion)
	e.ID.into(&s.ID)
	e.HashSeed.into(&s.HashSeed)
	e.LastSeq.into(&s.LastSeq)
	e.ClockHighMs.into(&s.ClockHighMs)
	e.NextFile.into(&s.NextFile)
	e.FlushedSeq.into(&s.FlushedSeq)
	if e.Spans.Set {
		s.Spans = append([]base.LogSpan(nil), e.Spans.Value...)
	}
	return s, d.apply(e, s.NextFile)
}

// snapshot returns the edit that turns the empty state into s.
func (s State) snapshot() Edit {
	e := Edit{
		FormatVersion: Some(s.FormatVersion),
		ID:            Some(s.ID),
		HashSeed:      Some(s.HashSeed),
		Spans:         Some(s.Spans),
		LastSeq:       Some(s.LastSeq),
		ClockHighMs:   Some(s.ClockHighMs),
		NextFile:      Some(s.NextFile),
		FlushedSeq:    Some(s.FlushedSeq),

		RequiredFeatures: s.RequiredFeatures,
		OptionalFeatures: s.OptionalFeatures,
		PutKeyspaces:     s.Keyspaces,
		Unknown:          s.Unknown,
	}
	if s.NextKeyspace > 1 {
		e.NextKeyspace = Some(s.NextKeyspace)
	}
	if len(s.Keyspaces) > 0 && *s.Keyspaces[0] == *defaultKeyspace {
		e.PutKeyspaces = s.Keyspaces[1:]
	}
	if s.Version == nil {
		return e
	}
	for _, tables := range s.Version.Levels {
		e.AddTables = append(e.AddTables, tables...)
	}
	for _, v := range s.Version.Values {
		e.AddValues = append(e.AddValues, v.ValueFile)
	}
	return e
}
