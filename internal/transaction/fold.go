package transaction

import (
	"bytes"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
)

// errPartial is lookup's answer for a key with a partial entry. It
// never leaves this package.
var errPartial = errors.New("stoat: partial entry")

// A found is a whole entry on which a chain of partial entries lies. The zero found is
// nothing.
type found struct {
	value []byte
	meta  base.Meta
	seq   base.SeqNum
}

// A foldMode says what fold is for.
type foldMode uint8

const (
	foldValues  foldMode = iota // the value is needed
	foldKeys                    // only whether there is a value
	foldScan                    // the value for an iterator, which records what it reads
	foldVersion                 // the same as of a version, even if it has expired
)

// fold returns what the partial entries of a key make of the entry below them, up to
// version at, or ErrNotFound. newest is the newest of them. If it is the transaction's own,
// its seq is 0, and so is the version of the result.
func (tx Txn) fold(of []byte, at base.SeqNum, newest found, mode foldMode) (value []byte, m base.Meta, seq base.SeqNum, err error) {
	view := tx.s.view
	if view == nil {
		return nil, m, 0, base.ErrTxnDone
	}
	key := bytes.Clone(of) // of often lies on the stack of a read
	hash, own := base.Hash(key, tx.s.engine.HashSeed), newest.seq == 0
	chain := partial.NewChain()
	defer chain.Free()
	if own {
		chain.Add(newest.meta.Kind, newest.value)
		if mode < foldScan && !mutant.On(mutant.SkipPointCheck) {
			tx.s.writes.Reads.AddKey(key, hash)
		}
	}
	value, m, seq, err = tx.foldGuarded(view, key, hash, at, chain, mode)
	if own {
		seq = 0
	}
	if err == nil && mode != foldVersion && m.ExpiresAt != 0 && tx.Expired(m.ExpiresAt, false) {
		err = base.ErrNotFound
	}
	if err == base.ErrNotFound {
		return nil, base.Meta{}, 0, err
	}
	return value, m, seq, tx.noteRead(err)
}

// foldGuarded collects the versions of key behind chain and folds them.
func (tx Txn) foldGuarded(view *state.View, key []byte, hash uint64, at base.SeqNum, chain *partial.Chain, mode foldMode) (value []byte, m base.Meta, newest base.SeqNum, err error) {
	defer fault.Enter().Leave(&err)
	var on found
	err = view.Versions(key, hash, at, &tx.s.decoded, func(value []byte, m base.Meta, seq base.SeqNum) bool {
		newest = max(newest, seq)
		if m.Kind.Partial() {
			chain.Add(m.Kind, value)
			return true
		}
		on = found{value, m, seq}
		return false
	})
	if err != nil {
		return nil, m, 0, err
	}
	outcome, err := chain.Over(partial.BaseOf(on.meta))
	if err != nil {
		return nil, m, 0, err
	}
	if outcome.Lapsed != 0 {
		tx.Expired(outcome.Lapsed, false) // a step found a value expired, if that is so by now
	}
	if !outcome.Present {
		return nil, m, newest, base.ErrNotFound
	}
	value, m, err = tx.outcome(key, &outcome, on, mode)
	return value, m, newest, err
}

// outcome returns the value and the metadata of an outcome over the entry on.
func (tx Txn) outcome(key []byte, o *partial.Outcome, on found, mode foldMode) (value []byte, m base.Meta, err error) {
	m = o.Meta(on.meta)
	switch {
	case mode == foldKeys:
		return nil, m, nil
	case len(o.Operands) == 0 && on.meta.Kind == base.KindPointer:
		m.Kind = base.KindPointer
		value, err = values.Renewed(on.value, on.seq)
		return value, m, err
	case len(o.Operands) == 0:
		return on.value, m, nil
	}
	f, err := tx.s.engine.Functions.Of(key)
	if err != nil {
		return nil, m, err
	}
	if o.FromBase && on.meta.Kind == base.KindPointer {
		if on.value, err = tx.fetchGuarded(on.value, key, on.seq); err != nil {
			return nil, m, err
		}
	}
	value, err = o.Value(f, key, on.value)
	return value, m, err
}

// Fold makes a whole entry of a partial one. With KeysOnly it needs the value, too: the
// item tells its length. It implements iter.Snapshot.Fold.
func (c *core) Fold(e *base.Entry) (bool, error) {
	mode, own, at := foldScan, e.Seq == iter.PendingSeq, e.Seq
	newest := found{e.Value, e.Meta, e.Seq}
	if own {
		at, newest.seq = c.tx.s.seq, 0
	}
	if c.snapshot.AllVersions {
		mode = foldVersion
	}
	value, m, _, err := c.tx.fold(e.Key, at, newest, mode)
	if err == base.ErrNotFound {
		e.Value, e.Meta = nil, base.Meta{Kind: base.KindDelete}
		return false, nil
	}
	e.Value, e.Meta = value, m
	return err == nil, err
}
