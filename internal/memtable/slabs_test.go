package memtable

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// tally counts the blocks in use.
type tally struct {
	blocks, bytes int
}

func (m *tally) Alloc(n int) ([]byte, error) {
	m.blocks++
	m.bytes += n
	return make([]byte, n), nil
}

func (m *tally) Free(b []byte) {
	m.blocks--
	m.bytes -= len(b)
}

func TestSlabs_BlocksAreZeroedAndDisjointAndAllReturn(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 9))
	var under tally
	m := Slabs(&under)
	var out [][]byte
	for i := range 2000 {
		if len(out) > 0 && rng.IntN(3) == 0 {
			k := rng.IntN(len(out))
			b := out[k]
			if bytes.Count(b, b[:1]) != len(b) {
				t.Fatalf("a block of %d bytes was written by others", len(b))
			}
			m.Free(b)
			out[k] = out[len(out)-1]
			out = out[:len(out)-1]
			continue
		}
		n := 1 + rng.IntN(100<<10)
		if rng.IntN(50) == 0 {
			n = hugePage + rng.IntN(hugePage)
		}
		b, err := m.Alloc(n)
		if err != nil || len(b) != n || cap(b) != n {
			t.Fatalf("%d bytes of capacity %d for %d: %v", len(b), cap(b), n, err)
		}
		if bytes.Count(b, []byte{0}) != n {
			t.Fatal("a block is not zeroed")
		}
		copy(b, bytes.Repeat([]byte{byte(i)}, n))
		out = append(out, b)
	}
	for _, b := range out {
		m.Free(b)
	}
	if under.blocks != 0 || under.bytes != 0 {
		t.Errorf("%d slabs with %d bytes are left", under.blocks, under.bytes)
	}
}

func TestSlabs_LeaveNoAddressOfASlabThatTheyGaveBack(t *testing.T) {
	t.Parallel()
	m := Slabs(Heap()).(*slabs)
	first, err := m.Alloc(slabFirst)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Alloc(slabFirst); err != nil {
		t.Fatal(err)
	}
	m.Free(first)
	if len(m.list) != 1 {
		t.Fatalf("%d slabs, want the second one", len(m.list))
	}
	for _, s := range m.list[1:cap(m.list)] {
		if s != nil {
			t.Error("the list has a slab behind its end")
		}
	}
}
