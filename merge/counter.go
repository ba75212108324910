package merge

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Counter adds int64 numbers. Sums beyond the range of int64 stay at its ends. So the
// result depends on the order of operands only after such a sum.
var Counter counter

// counterSize is the size in bytes of a number, big-endian.
const counterSize = 8

type counter struct{}

// Name implements stoat.MergeFunction.
func (counter) Name() string { return "stoat.counter" }

// Add returns an operand of Counter that adds n.
func Add(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// Count returns the number in a value of Counter. A nil value is 0.
func Count(value []byte) (int64, error) {
	switch len(value) {
	case 0:
		if value == nil {
			return 0, nil
		}
	case counterSize:
		return int64(binary.BigEndian.Uint64(value)), nil
	}
	return 0, fmt.Errorf("%w: a counter of %d bytes, want %d", ErrEncoding, len(value), counterSize)
}

// Merge implements stoat.MergeFunction.
func (counter) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	sum, err := Count(existing)
	if err != nil {
		return dst, err
	}
	return addAll(dst, sum, operands)
}

func addAll(dst []byte, sum int64, operands [][]byte) ([]byte, error) {
	for _, o := range operands {
		if len(o) != counterSize {
			return dst, fmt.Errorf("%w: an operand of %d bytes, want %d", ErrEncoding, len(o), counterSize)
		}
		sum = add(sum, int64(binary.BigEndian.Uint64(o)))
	}
	return binary.BigEndian.AppendUint64(dst, uint64(sum)), nil
}

// Combine implements stoat.OperandCombiner. It refuses operands whose sum is beyond the
// range, because the sum would then depend on what comes before.
func (counter) Combine(dst, _ []byte, operands [][]byte) ([]byte, error) {
	all, err := addAll(dst, 0, operands)
	if err != nil {
		return dst, err
	}
	// A sum whose parts all have one sign saturates at the same place in any grouping.
	up, down := false, false
	for _, o := range operands {
		n := int64(binary.BigEndian.Uint64(o))
		up, down = up || n > 0, down || n < 0
	}
	sum := int64(binary.BigEndian.Uint64(all[len(dst):]))
	if up && down || sum == math.MaxInt64 || sum == math.MinInt64 {
		return dst, fmt.Errorf("merge: a sum that depends on its order")
	}
	return all, nil
}

// add adds two numbers and stays within the range.
func add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum <= 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
