package manifest

import "github.com/stoatdb/stoat/internal/base"

// FormatVersion is the version of the format of a database that this code
// creates, and the latest that it understands.
const FormatVersion = 1

// A State is what the manifest says. It is a value: Apply returns a new one,
// and nobody changes what Spans points to.
type State struct {
	// FormatVersion is the version of the formats in the directory.
	FormatVersion uint32
	// ID tells databases apart. It never changes.
	ID [16]byte
	// HashSeed is the seed of base.Hash. It never changes.
	HashSeed uint64
	// Spans are the parts of the log to replay, in order. All but the last
	// are sealed. Without any it is nil.
	Spans []base.LogSpan
	// LastSeq is a sequence number that was in use: what Open finds in the
	// log may be higher, but a new transaction never gets this one or a lower
	// one.
	LastSeq base.SeqNum
	// ClockHighMs is a time, in milliseconds of Unix time, that was seen:
	// the clock of the database never goes behind it.
	ClockHighMs uint64
	// NextFile is a file number above all that were used for tables and value
	// files.
	NextFile uint64
	// FlushedSeq is a sequence number up to which everything is in tables.
	FlushedSeq base.SeqNum
	// Version is the tables and value files. Only in a State that was neither
	// loaded nor made by Apply it may be nil, which stands for none.
	Version *Version
}

// Apply returns the state after e. It fails, without a change, when e is not
// an edit that can follow s: the caller's mistake, or damage.
func (s State) Apply(e Edit) (State, error) {
	d := newDraft(s.Version)
	next, err := s.apply(&e, d)
	if err != nil {
		return s, err
	}
	next.Version = d.version()
	return next, nil
}

// apply is Apply for edits that follow one another: d carries the version from
// one to the next. After an error d is of no use.
func (s State) apply(e *Edit, d *draft) (State, error) {
	if err := e.check(s); err != nil {
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

// snapshot returns the edit that makes s of the empty state.
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
