package partial

import (
	"slices"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A Chain is consecutive partial entries of one key, collected from the newest to the
// oldest. Its zero value is empty.
type Chain struct {
	kinds    []base.Kind
	values   [][]byte
	steps    []Step
	operands [][]byte
}

// keptSteps is the number of steps up to which a Chain keeps its memory.
const keptSteps = 1 << 10

var chains = sync.Pool{New: func() any { return new(Chain) }}

// NewChain returns an empty chain, which may have memory of an earlier one.
func NewChain() *Chain { return chains.Get().(*Chain) }

// Free ends the use of a chain, and of all that was borrowed from it.
func (c *Chain) Free() {
	if cap(c.steps) <= keptSteps {
		c.reset()
		chains.Put(c)
	}
}

// Add adds the next older entry. The chain borrows value.
func (c *Chain) Add(k base.Kind, value []byte) {
	c.kinds, c.values = append(c.kinds, k), append(c.values, value)
}

// Steps returns the number of steps that Joined or Over found.
func (c *Chain) Steps() int { return len(c.steps) }

// reset makes the chain empty, and keeps its memory.
func (c *Chain) reset() {
	clear(c.values)
	clear(c.steps)
	clear(c.operands)
	c.kinds, c.values, c.steps, c.operands = c.kinds[:0], c.values[:0], c.steps[:0], c.operands[:0]
}

// decode decodes all steps, the oldest first.
func (c *Chain) decode() (err error) {
	c.steps = c.steps[:0]
	for i := len(c.values) - 1; i >= 0 && err == nil; i-- {
		c.steps, err = Decode(c.steps, c.kinds[i], c.values[i])
	}
	if mutant.On(mutant.OperandsReversed) {
		slices.Reverse(c.steps)
	}
	return err
}

// A Base is what the chain lies on, without the value.
type Base struct {
	Present bool
	Expires uint64 // of a present value, 0 for never
}

// BaseOf returns the base that a whole entry with the metadata m is.
func BaseOf(m base.Meta) Base { return Base{Present: m.Kind.HasValue(), Expires: m.ExpiresAt} }

// An Outcome is what a chain makes of its base.
type Outcome struct {
	Base
	// FromBase says that the value of the base is a part of the outcome. Without
	// operands, it is the value of the outcome.
	FromBase bool
	// Lapsed is the latest expiry time that an operand found to be over, or 0.
	Lapsed uint64
	// Until is the first expiry time of a value that a step found, or 0. Steps that
	// are given that time have another outcome.
	Until uint64
	// Operands are to be merged, the oldest first. They are borrowed from the entries
	// of the chain, and from the chain until its next use.
	Operands [][]byte
}

// Meta returns the metadata of the value of an outcome over an entry with the metadata on.
func (o *Outcome) Meta(on base.Meta) base.Meta {
	m := base.Meta{Kind: base.KindSet, ExpiresAt: o.Expires}
	if o.FromBase {
		m.User = on.User
	}
	return m
}

// Over returns what the chain makes of b.
func (c *Chain) Over(b Base) (Outcome, error) {
	out := Outcome{Base: b, FromBase: b.Present}
	if err := c.decode(); err != nil {
		return out, err
	}
	operands, until := c.operands[:0], uint64(0)
	for i := range c.steps {
		s := &c.steps[i]
		found := out.Present && (out.Expires == 0 || s.TimeMs < out.Expires)
		if mutant.On(mutant.RenewExpired) {
			found = out.Present
		}
		if found && out.Expires != 0 && (until == 0 || out.Expires < until) {
			until = out.Expires
		}
		switch {
		case s.Operand != nil && found:
			operands = append(operands, s.Operand)
		case s.Operand != nil:
			operands = append(operands[:0], s.Operand)
			if out.Present {
				out.Lapsed = max(out.Lapsed, out.Expires)
			}
			out = Outcome{Base: Base{Present: true}, Lapsed: out.Lapsed}
		case found:
			out.Expires = s.Expires
		}
	}
	out.Operands, c.operands, out.Until = operands, operands, until
	return out, nil
}

// Joined returns the value and the kind of one entry that stands for all entries of the
// chain. f may be nil; if it combines operands, operands of one time become one.
func (c *Chain) Joined(key []byte, f Function) (value []byte, kind base.Kind, err error) {
	if err := c.decode(); err != nil {
		return nil, 0, err
	}
	kind = base.KindRenew
	combiner, _ := f.(Combiner)
	for i := 0; i < len(c.steps); {
		n := 1
		if c.steps[i].Operand == nil {
			i += c.joinRenewals(i)
			value = appendStep(value, &c.steps[i-1])
			continue
		}
		kind = base.KindMerge
		for i+n < len(c.steps) && c.steps[i+n].Operand != nil && c.steps[i+n].TimeMs == c.steps[i].TimeMs {
			n++
		}
		same := c.steps[i : i+n]
		i += n
		if combiner != nil && n > 1 {
			if one, ok := combine(combiner, key, same); ok {
				value = AppendOperand(value, same[0].TimeMs, one)
				continue
			}
		}
		for j := range same {
			value = appendStep(value, &same[j])
		}
	}
	return value, kind, nil
}

// joinRenewals makes one step of the renewals from step i on, and returns how many there
// were. The last of them becomes that step.
func (c *Chain) joinRenewals(i int) int {
	n := 1
	for ; i+n < len(c.steps); n++ {
		a, b := c.steps[i+n-1], &c.steps[i+n]
		if b.Operand != nil || b.TimeMs < a.TimeMs {
			break
		}
		// What a renews exists at the time of b, unless it has expired since.
		if a.Expires != 0 && a.Expires <= b.TimeMs {
			b.Expires = a.Expires
		}
		b.TimeMs = a.TimeMs
	}
	return n
}

// combine makes one operand of several. It reports false if the combiner fails, or if
// the operand would be too long.
func combine(f Combiner, key []byte, steps []Step) ([]byte, bool) {
	operands := make([][]byte, len(steps))
	for i := range steps {
		operands[i] = steps[i].Operand
	}
	if mutant.On(mutant.CombineReversed) {
		slices.Reverse(operands)
	}
	if mutant.On(mutant.CombineLosesOne) {
		operands = operands[:len(operands)-1]
	}
	one, err := guarded(func() ([]byte, error) { return f.Combine(nil, key, operands) })
	return one, err == nil && len(one) <= base.MaxOperandSize
}
