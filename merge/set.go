package merge

import (
	"bytes"
	"fmt"
	"slices"
)

// Set keeps a set of byte strings. Its value is the sorted items; Items loops over them.
var Set setFunction

type setFunction struct{}

// The signs before each item of an operand. A value has no signs.
const (
	signRemove = 0
	signInsert = 1
)

// Name implements stoat.MergeFunction.
func (setFunction) Name() string { return "stoat.set" }

// Insert returns an operand of Set that inserts items.
func Insert(items ...[]byte) []byte { return signed(signInsert, items) }

// Remove returns an operand of Set that removes items, if they are there.
func Remove(items ...[]byte) []byte { return signed(signRemove, items) }

func signed(sign byte, items [][]byte) []byte {
	changes := make([]change, len(items))
	for i, item := range items {
		changes[i] = change{item, sign}
	}
	return appendChanges(nil, latest(changes))
}

// A change is an item of an operand.
type change struct {
	item []byte
	sign byte
}

// latest sorts changes by their items, and keeps the last one of each item.
func latest(changes []change) []change {
	slices.SortStableFunc(changes, func(a, b change) int { return bytes.Compare(a.item, b.item) })
	n := 0
	for i, c := range changes {
		if i+1 < len(changes) && bytes.Equal(c.item, changes[i+1].item) {
			continue
		}
		changes[n] = c
		n++
	}
	return changes[:n]
}

// appendChanges appends the encoding of an operand: for each item its sign and the item,
// in ascending order.
func appendChanges(dst []byte, changes []change) []byte {
	for _, c := range changes {
		dst = appendItem(append(dst, c.sign), c.item)
	}
	return dst
}

// decodeChanges decodes operands, the oldest first.
func decodeChanges(operands [][]byte) (changes []change, err error) {
	for _, rest := range operands {
		var last []byte
		for first := true; len(rest) > 0; first = false {
			c := change{sign: rest[0]}
			if c.sign > signInsert {
				return nil, fmt.Errorf("%w: sign %d of an item", ErrEncoding, c.sign)
			}
			if c.item, rest, err = cutItem(rest[1:]); err != nil {
				return nil, err
			}
			if !first && bytes.Compare(last, c.item) >= 0 {
				return nil, fmt.Errorf("%w: items out of order", ErrEncoding)
			}
			last, changes = c.item, append(changes, c)
		}
	}
	return latest(changes), nil
}

// Combine implements stoat.OperandCombiner.
func (setFunction) Combine(dst, _ []byte, operands [][]byte) ([]byte, error) {
	changes, err := decodeChanges(operands)
	return appendChanges(dst, changes), err
}

// Merge implements stoat.MergeFunction.
func (setFunction) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	changes, err := decodeChanges(operands)
	if err != nil {
		return dst, err
	}
	var last []byte
	first := true
	for item, err := range Items(existing) {
		if err != nil {
			return dst, err
		}
		if !first && bytes.Compare(last, item) >= 0 {
			return dst, fmt.Errorf("%w: items out of order", ErrEncoding)
		}
		last, first = item, false
		for len(changes) > 0 && bytes.Compare(changes[0].item, item) < 0 {
			dst, changes = changes[0].apply(dst), changes[1:]
		}
		if len(changes) > 0 && bytes.Equal(changes[0].item, item) {
			continue // the change says what becomes of it
		}
		dst = appendItem(dst, item)
	}
	for _, c := range changes {
		dst = c.apply(dst)
	}
	return dst, nil
}

// apply appends the item unless the change removes it.
func (c change) apply(dst []byte) []byte {
	if c.sign == signRemove {
		return dst
	}
	return appendItem(dst, c.item)
}
