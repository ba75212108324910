package commit

import (
	"bytes"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
)

// foldMax is the size in bytes of the largest value that foldOnApply makes. It bounds the
// memory that a hot key with a long value takes.
const foldMax = 64 << 10

// foldOnApply is the memtable.Fold of commits. It folds an operand that is about to be
// applied onto the newest version of its key. So a key with many operands stays quick to
// read. The log has the operand all the same. The caller holds build, so that version is
// the one before this commit. Earlier commits of the same moment may not be visible yet; if
// one of them fails, all commits end.
func (c *Committer) foldOnApply(key, value []byte, k base.Kind) (whole []byte, m base.Meta, ok bool) {
	slot := c.store.AcquireForCommit()
	defer c.store.Release(slot)
	v := c.store.Pin(slot)
	chain := partial.NewChain()
	defer chain.Free()
	chain.Add(k, value)
	if mutant.On(mutant.FoldTwice) {
		chain.Add(k, value)
	}
	at := base.SeqNumMax
	if mutant.On(mutant.FoldVisible) {
		at = c.store.Visible()
	}
	on := base.Meta{Kind: base.KindDelete}
	var outcome partial.Outcome
	err := fault.Guard(func() error {
		err := v.Versions(key, base.Hash(key, c.o.HashSeed), at, nil, func(value []byte, m base.Meta, _ base.SeqNum) bool {
			if m.Kind.Partial() {
				chain.Add(m.Kind, value)
				return true
			}
			on, whole = m, value
			return false
		})
		if err == nil {
			outcome, err = chain.Over(partial.BaseOf(on))
		}
		return err
	})
	if err != nil {
		return nil, m, false // a reader of the key meets the damage
	}
	if !outcome.Present {
		return nil, base.Meta{Kind: base.KindDelete}, true
	}
	if outcome.FromBase && on.Kind == base.KindPointer {
		return nil, m, false // a flush has time to read the value, and counts the pointers
	}
	m = outcome.Meta(on)
	whole, err = c.foldedValue(key, whole, &outcome)
	return whole, m, err == nil
}

// errFoldTooLong says that a folded value is longer than foldMax.
var errFoldTooLong = errors.New("the value is too long to be folded")

// errFoldEnded says that a merge function ended its goroutine.
var errFoldEnded = errors.New("the merge function ended its goroutine")

// foldedValue returns the value of outcome over the version that has the value existing, which
// is pinned. The value has memory of its own: that of existing may be gone once it is not
// pinned any more. A merge function runs on a goroutine of its own. If it ends that, no leader
// ends, which holds build.
func (c *Committer) foldedValue(key, existing []byte, outcome *partial.Outcome) (value []byte, err error) {
	fold := func() error {
		value = existing
		if len(outcome.Operands) > 0 {
			f, err := c.o.Functions.Of(key)
			if err == nil {
				value, err = outcome.Value(f, key, existing)
			}
			if err != nil {
				return err
			}
		}
		if len(value) > foldMax {
			return errFoldTooLong
		}
		value = bytes.Clone(value)
		return nil
	}
	if len(outcome.Operands) == 0 {
		err = fault.Guard(fold)
		return value, err
	}
	err = errFoldEnded
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = fault.Guard(fold)
	}()
	<-done
	return value, err
}
