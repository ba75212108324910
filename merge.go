package stoat

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
)

// A MergeFunction makes values of operands, which Txn.Merge writes. Package merge has
// ready ones.
//
// The methods must be pure: the same arguments give the same result, at any time and in
// any order of calls. Several goroutines call them at the same time, readers and
// background jobs. Commits may wait for them. A function that returns an error or
// panics makes reads of the key fail with ErrMerge, and no operand is lost.
type MergeFunction interface {
	// Name names the function. A database finds its function by the name, so the name of
	// a function must change when its operands get another meaning.
	Name() string
	// Merge appends to dst what operands, the oldest first, make of the existing value of
	// key, and returns the result. There is at least one operand. A nil existing means
	// that there is no value. Merge must neither keep nor change its other arguments.
	Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error)
}

// An OperandCombiner is a MergeFunction whose operands can be merged with each other.
// Operands of one transaction for one key then become one.
type OperandCombiner interface {
	MergeFunction
	// Combine appends to dst one operand that does the same as operands, the oldest
	// first. If that would be longer than MaxOperandSize, the operands stay as they are.
	Combine(dst, key []byte, operands [][]byte) ([]byte, error)
}

var (
	// ErrNoMergeFunction says that the merge function of a key is not registered in
	// Options.MergeFunctions. The text names it. Nothing is lost: with the function, the
	// key can be read again.
	ErrNoMergeFunction = partial.ErrNoFunction

	// ErrMerge says that a merge function returned an error or panicked. It wraps that
	// error.
	ErrMerge = partial.ErrFunction

	// ErrOperandTooLarge says that an operand is longer than MaxOperandSize, 64 KiB.
	ErrOperandTooLarge = errors.New("stoat: operand too large")
)

// MaxOperandSize is the length of the longest operand in bytes: 65,536, which is 64 KiB.
const MaxOperandSize = base.MaxOperandSize

const (
	// ownStepsMax and ownBytesMax bound the operands for one key that a transaction
	// collects without reading the key: their number, and their size in bytes.
	ownStepsMax = 64
	ownBytesMax = 128 << 10
)

// errPartial is lookup's answer for a key with a partial entry. It
// never leaves this package.
var errPartial = errors.New("stoat: partial entry")

// Merge writes an operand for key. A later read of the key merges the operands with the
// value that they were written over, by the function of Options.MergeFunction. Merge
// copies key and operand, so the caller may reuse them at once.
//
// Merge reads nothing, so operands of several transactions for one key are no conflict.
// For a transaction that read the key, the operand is a write like any other. However,
// a transaction that writes more than 64 operands for one key, or 128 KiB of them,
// reads the key, unless the function is an OperandCombiner.
//
// The value keeps its time of expiry and its UserMeta. If the key has no value when the
// transaction writes the operand, or one that has expired, the function starts from
// nothing. The result then never expires, whatever the DefaultTTL is.
func (tx Txn) Merge(key, operand []byte) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	if len(operand) > MaxOperandSize {
		return fmt.Errorf("%w: %d bytes, of at most %d", ErrOperandTooLarge, len(operand), MaxOperandSize)
	}
	key = tx.keyToWrite(key)
	f, err := tx.s.db.functions.Of(key)
	if err != nil {
		return err
	}
	return tx.addStep(key, base.KindMerge, partial.AppendOperand(nil, tx.nowMs(), operand), f)
}

// Renew gives the value of key a new time of expiry, TTL or ExpiresAt, without writing
// the value again. If key has no value, or one that has expired, Renew does nothing.
//
// Renew reads nothing, so it is no conflict with other writes of the key. For a
// transaction that read the key, it is a write like any other.
func (tx Txn) Renew(key []byte, expiry SetOption) error {
	if err := tx.writable(key); err != nil {
		return err
	}
	switch expiry.kind {
	case setTTL, setExpiry, setNoExpiry:
	default:
		return invalid("the expiry is neither TTL nor ExpiresAt")
	}
	m := tx.metaOf([]SetOption{expiry})
	return tx.addStep(tx.keyToWrite(key), base.KindRenew, partial.AppendRenewal(nil, tx.nowMs(), min(m.ExpiresAt, base.TimeMsMax)), nil)
}

// addStep adds one step to what the transaction has written for a stored key. f is nil for a
// renewal.
func (tx Txn) addStep(key []byte, k base.Kind, step []byte, f partial.Function) error {
	w, hash := tx.s.writes, base.Hash(key, tx.s.db.hashSeed)
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
			f, _ = tx.s.db.functions.Of(key)
		}
		joined, kind, err := chain.Joined(nil, key, f)
		if err != nil {
			return err
		}
		if kind == base.KindMerge && (len(joined) > ownBytesMax || chain.Steps() > ownStepsMax && !combines(f)) {
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
func (tx Txn) foldOwn(key []byte, hash uint64, k base.Kind, steps []byte) error {
	if err := tx.s.writes.Pending.Set(key, steps, hash, base.Meta{Kind: k}, 0); err != nil {
		return err
	}
	value, m, _, err := tx.fold(key, tx.s.seq, found{steps, base.Meta{Kind: k}, 0}, foldValues)
	if err != nil {
		return err
	}
	return tx.writeStored(key, value, m)
}

// writeStored is write for a stored key that the transaction may write.
func (tx Txn) writeStored(key, value []byte, m base.Meta) error {
	w := tx.s.writes
	w.Adds = true
	if m.Kind == base.KindSet && int64(len(value)) >= tx.settings().LargeValueThreshold {
		w.Large += int64(len(value))
	}
	return tx.setStored(key, value, m)
}

// foldOnto writes what a chain makes of a whole entry of the transaction itself.
func (tx Txn) foldOnto(key []byte, chain *partial.Chain, on found) error {
	outcome, err := chain.Over(on.base())
	if err != nil || !outcome.Present {
		return err
	}
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

// A found is a whole entry on which a chain of partial entries lies. The zero found is
// nothing.
type found struct {
	value []byte
	meta  base.Meta
	seq   base.SeqNum
}

func (f *found) base() partial.Base {
	return partial.Base{Present: f.meta.Kind.HasValue(), Expires: f.meta.ExpiresAt}
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
		return nil, m, 0, ErrTxnDone
	}
	key := bytes.Clone(of) // of often lies on the stack of a read
	hash, own := base.Hash(key, tx.s.db.hashSeed), newest.seq == 0
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
	if err == nil && mode != foldVersion && m.ExpiresAt != 0 && tx.expired(m.ExpiresAt, own) {
		err = ErrNotFound
	}
	if err == ErrNotFound {
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
	outcome, err := chain.Over(on.base())
	if err != nil {
		return nil, m, 0, err
	}
	if !outcome.Present {
		return nil, m, newest, ErrNotFound
	}
	value, m, err = tx.outcome(key, &outcome, on, mode)
	return value, m, newest, err
}

// outcome returns the value and the metadata of an outcome over the entry on.
func (tx Txn) outcome(key []byte, o *partial.Outcome, on found, mode foldMode) (value []byte, m base.Meta, err error) {
	m = base.Meta{Kind: base.KindSet, ExpiresAt: o.Expires}
	if o.FromBase {
		m.User = on.meta.User
	}
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
	f, err := tx.s.db.functions.Of(key)
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
func (c *iteratorCore) Fold(e *base.Entry) (bool, error) {
	mode, own, at := foldScan, e.Seq == iter.PendingSeq, e.Seq
	newest := found{e.Value, e.Meta, e.Seq}
	if own {
		at, newest.seq = c.tx.s.seq, 0
	}
	if c.snapshot.AllVersions {
		mode = foldVersion
	}
	value, m, _, err := c.tx.fold(e.Key, at, newest, mode)
	if err == ErrNotFound {
		e.Value, e.Meta = nil, base.Meta{Kind: base.KindDelete}
		return false, nil
	}
	e.Value, e.Meta = value, m
	return err == nil, err
}

// checkFunctions returns an error about merge functions without a name or with the same
// one, or about an unknown name.
func (o *Options) checkFunctions() error {
	names := map[string]bool{}
	for _, f := range o.MergeFunctions {
		if f == nil || f.Name() == "" || names[f.Name()] {
			return invalid("Options.MergeFunctions has a function without a name of its own")
		}
		names[f.Name()] = true
	}
	return nil
}

// A storedFunction is a MergeFunction for stored keys. It shows the function the user's.
type storedFunction struct{ MergeFunction }

// Merge implements partial.Function.
func (f storedFunction) Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	return f.MergeFunction.Merge(dst, userKey(key), existing, operands)
}

// A storedCombiner is an OperandCombiner for stored keys.
type storedCombiner struct {
	storedFunction
	combiner OperandCombiner
}

// Combine implements partial.Combiner.
func (f storedCombiner) Combine(dst, key []byte, operands [][]byte) ([]byte, error) {
	return f.combiner.Combine(dst, userKey(key), operands)
}

// userKey returns the user's part of a stored key.
func userKey(stored []byte) []byte {
	if _, key, err := keyspace.Decode(stored); err == nil {
		return key
	}
	return stored // damage, which a reader meets
}

// settingsOf returns the settings of the keyspace of a stored key.
func (d *DB) settingsOf(stored []byte) *settings.Settings {
	number, err := keyspace.NumberOf(stored)
	if err != nil {
		return d.settings.Default()
	}
	return d.settings.Of(number)
}

// functionsOf returns the registered merge functions of d.
func (d *DB) functionsOf() *partial.Functions {
	functions := make([]partial.Function, len(d.opts.MergeFunctions))
	for i, f := range d.opts.MergeFunctions {
		functions[i] = storedFunction{f}
		if c, ok := f.(OperandCombiner); ok {
			functions[i] = storedCombiner{storedFunction{f}, c}
		}
	}
	named := func(stored []byte) string { return d.settingsOf(stored).MergeFunction }
	return partial.NewFunctions(named, functions)
}
