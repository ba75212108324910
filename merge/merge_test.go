package merge

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

type function interface {
	Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error)
	Combine(dst, key []byte, operands [][]byte) ([]byte, error)
}

// randomOperands returns functions with a random operand of each.
var randomOperands = map[string]struct {
	f    function
	draw func(rng *rand.Rand) []byte
}{
	"counter": {Counter, func(rng *rand.Rand) []byte {
		return Add([]int64{1, -1, 100, math.MaxInt64, math.MinInt64}[rng.IntN(5)])
	}},
	"append": {Append, func(rng *rand.Rand) []byte { return fmt.Append(nil, rng.IntN(100)) }},
	"last":   {Last(5), func(rng *rand.Rand) []byte { return Push(fmt.Append(nil, rng.IntN(100))) }},
	"set": {Set, func(rng *rand.Rand) []byte {
		items := [][]byte{fmt.Append(nil, rng.IntN(20)), fmt.Append(nil, rng.IntN(20))}
		if rng.IntN(2) == 0 {
			return Insert(items...)
		}
		return Remove(items...)
	}},
}

// TestCombine_MeansTheSameAsItsOperands merges operands one by one, and with any
// neighbours combined.
func TestCombine_MeansTheSameAsItsOperands(t *testing.T) {
	t.Parallel()
	for name, c := range randomOperands {
		for seed := range uint64(500) {
			rng := rand.New(rand.NewPCG(seed, 2))
			operands := make([][]byte, 1+rng.IntN(8))
			var want []byte
			var err error
			for i := range operands {
				operands[i] = c.draw(rng)
				if want, err = c.f.Merge(nil, nil, want, operands[i:i+1]); err != nil {
					t.Fatal(err)
				}
			}
			for len(operands) > 1 && rng.IntN(4) > 0 {
				i := rng.IntN(len(operands) - 1)
				one, err := c.f.Combine(nil, nil, operands[i:i+2])
				if err != nil {
					break // the operands stay as they are
				}
				operands = slices.Replace(operands, i, i+2, one)
			}
			if got, err := c.f.Merge([]byte("dst"), nil, nil, operands); err != nil || string(got) != "dst"+string(want) {
				t.Fatalf("%s, seed %d: %q, %v, want %q", name, seed, got, err, want)
			}
		}
	}
}

func TestCounter_StaysWithinItsRange(t *testing.T) {
	t.Parallel()
	value := Add(math.MaxInt64 - 1)
	for _, c := range []struct{ add, want int64 }{{1, math.MaxInt64}, {1, math.MaxInt64}, {-3, math.MaxInt64 - 3}} {
		var err error
		if value, err = Counter.Merge(nil, nil, value, [][]byte{Add(c.add)}); err != nil {
			t.Fatal(err)
		}
		if n, err := Count(value); n != c.want || err != nil {
			t.Errorf("after %d: %d, %v, want %d", c.add, n, err, c.want)
		}
	}
	if n, err := Count(nil); n != 0 || err != nil {
		t.Errorf("no counter: %d, %v", n, err)
	}
}

func TestEncoding_OtherBytesAreErrors(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func() error{
		"a short counter":    func() error { _, err := Count([]byte("1")); return err },
		"an empty counter":   func() error { _, err := Count([]byte{}); return err },
		"a long operand":     func() error { _, err := Counter.Merge(nil, nil, nil, [][]byte{make([]byte, 9)}); return err },
		"an item cut short":  func() error { _, err := Last(1).Merge(nil, nil, []byte{5, 1}, [][]byte{Push(nil)}); return err },
		"an unknown sign":    func() error { _, err := Set.Merge(nil, nil, nil, [][]byte{{2, 0}}); return err },
		"items out of order": func() error { _, err := Set.Merge(nil, nil, []byte("\x01b\x01a"), [][]byte{Insert()}); return err },
		"changes in any order": func() error {
			_, err := Set.Combine(nil, nil, [][]byte{[]byte("\x01\x01b\x01\x01a")})
			return err
		},
	} {
		if err := f(); !errors.Is(err, ErrEncoding) {
			t.Errorf("%s: %v, want ErrEncoding", name, err)
		}
	}
}

// FuzzFunctions merges any value and any operands. The result is an error, or a value
// that merges again.
func FuzzFunctions(f *testing.F) {
	f.Add([]byte("\x01a\x01b"), Insert([]byte("c")), Push([]byte("d")))
	f.Add(Add(1), Add(2), Add(-3))
	f.Fuzz(func(t *testing.T, existing, first, second []byte) {
		for name, c := range randomOperands {
			value, err := c.f.Merge(nil, nil, existing, [][]byte{first, second})
			if err != nil {
				continue
			}
			if again, err := c.f.Merge(nil, nil, value, [][]byte{second}); err != nil {
				t.Fatalf("%s makes %q, which it does not understand: %v, %q", name, value, err, again)
			}
			one, err := c.f.Combine(nil, nil, [][]byte{first, second})
			if err != nil {
				continue
			}
			if got, err := c.f.Merge(nil, nil, existing, [][]byte{one}); err != nil || !bytes.Equal(got, value) {
				t.Fatalf("%s: combined operands make %q, %v, want %q", name, got, err, value)
			}
		}
	})
}
