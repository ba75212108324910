package scratch

import (
	"bytes"
	"testing"
)

func TestGrow_KeepsTheContentsAndMakesRoom(t *testing.T) {
	t.Parallel()
	var b, want []byte
	for n := 1; len(b)+n <= Size; n = n*3/2 + 1 {
		b = Grow(b, n)
		if cap(b)-len(b) < n || !bytes.Equal(b, want) {
			t.Fatalf("a buffer with %d bytes has room for %d, want for %d", len(b), cap(b)-len(b), n)
		}
		for range n {
			b, want = append(b, byte(len(b))), append(want, byte(len(want)))
		}
	}
	b = Grow(b, Size-len(b))
	if cap(b) != Size || !bytes.Equal(b, want) {
		t.Fatalf("the buffer has %d of %d bytes, and room for %d", len(b), len(want), cap(b))
	}
	Release(b)
}

func TestGrow_ShortBuffersAreNotFull(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, 4096, fullFrom / 3} {
		if b := Grow(nil, n); cap(b) > 2*n {
			t.Errorf("a buffer for %d bytes takes %d", n, cap(b))
		}
	}
}
