package main

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A number is a flag for an integer with an optional suffix. The suffixes k, M and G are
// powers of 1000, and Ki, Mi and Gi are powers of 1024.
type number int64

// String formats the number without a suffix.
func (n *number) String() string { return strconv.FormatInt(int64(*n), 10) }

// count returns the number as a count of things in memory, or the largest int.
func (n number) count() int { return int(min(n, math.MaxInt)) }

// suffixes are tried in this order.
var suffixes = []struct {
	text   string
	factor int64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30},
	{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"m", 1e6}, {"G", 1e9}, {"g", 1e9},
}

// Set parses a decimal number with or without a suffix, exactly.
func (n *number) Set(s string) error {
	digits, factor := strings.TrimSuffix(s, "B"), int64(1)
	for _, suffix := range suffixes {
		if rest, ok := strings.CutSuffix(digits, suffix.text); ok {
			digits, factor = rest, suffix.factor
			break
		}
	}
	v, ok := new(big.Rat).SetString(digits)
	if !ok || v.Sign() < 0 || strings.Trim(digits, "0123456789.eE+-") != "" { // it is a fraction or hexadecimal
		return fmt.Errorf("want a number such as 5000, 250k, 1.5M or 4Ki")
	}
	if v.Mul(v, new(big.Rat).SetInt64(factor)); !v.IsInt() || !v.Num().IsInt64() {
		return fmt.Errorf("want a whole number of at most %d", int64(math.MaxInt64))
	}
	*n = number(v.Num().Int64())
	return nil
}

// A seed is a flag for the seed of a random generator.
type seed uint64

// String formats the seed for Set.
func (s *seed) String() string { return strconv.FormatUint(uint64(*s), 10) }

// Set parses a number, or draws a seed for "random". A drawn seed has 32 bits, to
// be easy to copy by hand.
func (s *seed) Set(text string) error {
	if text == "random" {
		*s = seed(rand.Uint32())
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("want a number from 0 to 2^64-1, or random")
	}
	*s = seed(n)
	return nil
}
