package transaction

import (
	"math"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/stamp"
)

// An IngestTarget is where an ingest writes: the default keyspace, or another one.
type IngestTarget struct {
	// Space is the translation of the keys.
	Space keyspace.Space
	// Passage is what the commit passes through, nil in the default keyspace. It covers the
	// entries so far.
	Passage *commit.Passage

	engine *Engine
	in     *Keyspace
	key    []byte // memory for a key with its timestamp
}

// IngestTarget returns where an ingest into a keyspace writes. A nil ks is the default
// keyspace.
func (e *Engine) IngestTarget(ks *Keyspace) (*IngestTarget, error) {
	t := &IngestTarget{engine: e, in: ks}
	if ks == nil {
		return t, nil
	}
	t.Space, t.Passage = ks.space, &commit.Passage{Gate: &ks.handle.Gate, Least: math.MaxUint64}
	return t, ks.Usable(e)
}

// Entry returns the key and the metadata of a value that is ingested now. The key is valid
// until the next call.
func (t *IngestTarget) Entry(key []byte, at uint64, o Metadata) ([]byte, base.Meta, error) {
	m := t.engine.MetaOf(t.in, o)
	if t.in == nil || !t.in.Timed() {
		if at != 0 {
			return nil, m, ErrNoTimestamps
		}
		return key, m, nil
	}
	if floor := t.Passage.Gate.Floor(); at < floor {
		return nil, m, t.in.discarded(at, floor)
	}
	if len(key) == 0 {
		return nil, m, nil // the ingest refuses it
	}
	t.Passage.Least = min(t.Passage.Least, at)
	t.key = stamp.Append(t.key[:0], key, at)
	return t.key, timedMeta(m), nil
}

// OrderError returns an error of the order of keys with the keys of the caller.
func (t *IngestTarget) OrderError(e *base.KeyOrderError) *base.KeyOrderError {
	if t.in == nil || !t.in.Timed() {
		return e
	}
	key, at, _ := stamp.Decode(e.Key, nil)
	previous, before, _ := stamp.Decode(e.Previous, nil)
	return &base.KeyOrderError{Position: e.Position, Key: key, Previous: previous, Timestamp: at, PreviousTimestamp: before}
}
