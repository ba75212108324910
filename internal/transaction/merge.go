package transaction

import (
	"bytes"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
)

const (
	// ownStepsMax and ownBytesMax bound the operands for one key that a transaction
	// collects without reading the key: their number, and their size in bytes.
	ownStepsMax = 64
	ownBytesMax = 128 << 10
)

// Merge is stoat.Txn.Merge.
func (tx Txn) Merge(key, operand []byte) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if len(operand) > base.MaxOperandSize {
		return fmt.Errorf("%w: %d bytes, of at most %d", base.ErrOperandTooLarge, len(operand), base.MaxOperandSize)
	}
	key = tx.keyToWrite(key)
	f, err := tx.s.engine.Functions.Of(key)
	if err != nil {
		return err
	}
	return tx.shrink(tx.addStep(key, base.KindMerge, partial.AppendOperand(nil, tx.NowMs(), operand), f))
}

// Renew is stoat.Txn.Renew.
func (tx Txn) Renew(key []byte, expiry Metadata) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if expiry.Expiry == 0 {
		return base.Invalid("the expiry is neither TTL nor ExpiresAt")
	}
	m := tx.metaOf(expiry)
	return tx.shrink(tx.addStep(tx.keyToWrite(key), base.KindRenew, partial.AppendRenewal(nil, tx.NowMs(), min(m.ExpiresAt, base.TimeMsMax)), nil))
}

// shrink frees the memory of overwritten steps, unless the caller may read it. It returns
// err, the outcome of addStep.
func (tx Txn) shrink(err error) error {
	if err == nil && !tx.s.lentOwn {
		tx.s.engine.Commits.Shrink(tx.s.writes)
	}
	return err
}

// addStep adds one step to what the transaction has written for a stored key. f is nil for a
// renewal.
func (tx Txn) addStep(key []byte, k base.Kind, step []byte, f partial.Function) error {
	w, hash := tx.s.writes, base.Hash(key, tx.s.engine.HashSeed)
	chain := partial.NewChain()
	defer chain.Free()
	chain.Add(k, step)
	own, m, _, ok := w.Pending.Get(key, hash, base.SeqNumMax)
	switch {
	case ok && m.Kind.Partial():
		if !mutant.On(mutant.BlindOwnMerge) {
			chain.Add(m.Kind, own)
		}
		if f == nil {
			f, _ = tx.s.engine.Functions.Of(key)
		}
		joined, kind, err := chain.Joined(key, f)
		if err != nil {
			return err
		}
		if kind == base.KindMerge && (len(joined) > ownBytesMax || chain.Steps() > ownStepsMax && !combines(f)) {
			if tx.s.blind {
				return errPieceFull
			}
			return tx.foldOwn(key, hash, kind, joined)
		}
		step, k = joined, kind
	case ok:
		return tx.foldOnto(key, chain, found{own, m, 0})
	case w.Pending.HasDeletions() && w.Pending.Cover(key, tx.s.seq) != 0:
		return tx.foldOnto(key, chain, found{})
	}
	w.Adds, w.Partial = true, true
	return w.Pending.Set(key, step, hash, base.Meta{Kind: k}, 0)
}

func combines(f partial.Function) bool {
	_, ok := f.(partial.Combiner)
	return ok
}

// foldOwn writes the value that the steps of the transaction make of the value in the
// snapshot, which it reads.
func (tx Txn) foldOwn(key []byte, hash uint64, k base.Kind, steps []byte) (err error) {
	defer fault.Enter().Leave(&err)
	if err := tx.s.writes.Pending.Set(key, steps, hash, base.Meta{Kind: k}, 0); err != nil {
		return err
	}
	ofSnapshot := found{seq: 1} // any version that is not the transaction's own
	_, below, _, err := tx.fold(key, tx.s.seq, ofSnapshot, foldKeys)
	if err != nil && err != base.ErrNotFound {
		return err
	}
	chain := partial.NewChain()
	defer chain.Free()
	chain.Add(k, steps)
	outcome, err := chain.Over(partial.Base{Present: err == nil, Expires: below.ExpiresAt})
	if err != nil {
		return err
	}
	value, m, _, err := tx.fold(key, tx.s.seq, found{steps, base.Meta{Kind: k}, 0}, foldValues)
	if err == base.ErrNotFound {
		return nil // the steps say so
	}
	if err != nil {
		return err
	}
	tx.lapses(&outcome)
	return tx.writeStored(key, value, m)
}

// lapses makes the commit a conflict once a value has expired that steps found and that
// became a part of the writes. The steps would not find it at the time of the commit. A piece
// of a batch never conflicts.
func (tx Txn) lapses(o *partial.Outcome) {
	if o.Until != 0 && !tx.s.blind {
		tx.s.writes.LapsesAt(o.Until)
	}
}

// foldOnto writes what a chain makes of a whole entry of the transaction itself.
func (tx Txn) foldOnto(key []byte, chain *partial.Chain, on found) (err error) {
	defer fault.Enter().Leave(&err)
	outcome, err := chain.Over(partial.BaseOf(on.meta))
	if err != nil || !outcome.Present {
		return err
	}
	tx.lapses(&outcome)
	if len(outcome.Operands) == 0 && on.meta.Kind == base.KindPointer { // of SetReader
		on.meta.ExpiresAt = outcome.Expires
		return tx.setStored(key, bytes.Clone(on.value), on.meta)
	}
	value, m, err := tx.outcome(key, &outcome, on, foldValues)
	if err != nil {
		return err
	}
	return tx.writeStored(key, value, m)
}
