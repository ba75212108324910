package merge

import "strconv"

// Last returns a function that keeps the newest n items of a list, at least 1. The name of
// the function contains n. Items loops over the items of a value, the oldest first.
func Last(n int) LastFunction { return LastFunction{max(n, 1)} }

// A LastFunction is the function of Last.
type LastFunction struct{ n int }

// Push returns an operand of Last that appends an item to the list.
func Push(item []byte) []byte { return appendItem(nil, item) }

// Name implements stoat.MergeFunction.
func (l LastFunction) Name() string { return "stoat.last." + strconv.Itoa(l.n) }

// Merge implements stoat.MergeFunction.
func (l LastFunction) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	return l.keep(dst, append([][]byte{existing}, operands...))
}

// Combine implements stoat.OperandCombiner.
func (l LastFunction) Combine(dst, _ []byte, operands [][]byte) ([]byte, error) {
	return l.keep(dst, operands)
}

// keep appends the newest items of lists, the oldest list first.
func (l LastFunction) keep(dst []byte, lists [][]byte) ([]byte, error) {
	count := 0
	for _, list := range lists {
		for _, err := range Items(list) {
			if err != nil {
				return dst, err
			}
			count++
		}
	}
	skip := count - l.n
	for _, list := range lists {
		for item := range Items(list) {
			if skip--; skip < 0 {
				dst = appendItem(dst, item)
			}
		}
	}
	return dst, nil
}
