package isolation

import (
	"fmt"
	"strconv"
	"strings"
)

// The checker takes a key at a timestamp for a key of its own. This has the key, a zero
// byte and the complement of the timestamp, so that later timestamps come first. No key has
// a zero byte. The bounds of ranges have no timestamp, and separate stamped keys as they
// separate keys.

const (
	stampSign   = "\x00"
	afterStamps = "\x01" // makes the end of all stamped forms of a key
)

// stamped returns the key of a key at a timestamp.
func stamped(key string, at uint64) string { return fmt.Sprintf("%s%s%016x", key, stampSign, ^at) }

// unstamped is the inverse of stamped.
func unstamped(stored string) (key string, at uint64) {
	key, stamp, _ := strings.Cut(stored, stampSign)
	n, err := strconv.ParseUint(stamp, 16, 64)
	if err != nil {
		panic(err)
	}
	return key, ^n
}

// stampOf returns the timestamp of a stored key, or 0.
func stampOf(stored string) uint64 {
	if !strings.Contains(stored, stampSign) {
		return 0
	}
	_, at := unstamped(stored)
	return at
}

// stored returns the key that an operation is about, for the checker.
func (o *Op) stored() string {
	if o.At == 0 {
		return o.Key
	}
	return stamped(o.Key, o.At)
}

func (it *Item) stored(timed bool) string {
	if timed {
		return stamped(it.Key, it.At)
	}
	return it.Key
}

// operandSign begins each operand that is appended to a list.
const operandSign = "|"

// merged returns what operands make of a value. An empty value is none.
func merged(counts bool, value string, operands []string) string {
	if !counts {
		return value + strings.Join(operands, "")
	}
	if len(operands) == 0 {
		return value
	}
	sum := int64(0)
	for _, n := range append([]string{value}, operands...) {
		if n != "" {
			sum += parsed(n)
		}
	}
	return strconv.FormatInt(sum, 10)
}

func parsed(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
