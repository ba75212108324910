package vfs

import "testing"

func TestAllocSparse_ReturnsZeroedMemory(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4096, 100_000, 3 << 20} {
		b, err := AllocSparse(n)
		must(t, err)
		if len(b) != n || cap(b) != n {
			t.Fatalf("got %d bytes with capacity %d, want %d", len(b), cap(b), n)
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of %d is %d", i, n, b[i])
			}
			b[i] = 1
		}
		must(t, FreeSparse(b))
	}
	b, err := AllocSparse(0)
	must(t, err)
	must(t, FreeSparse(b))
	_, err = AllocSparse(-1)
	wantError(t, "allocate -1 bytes", err)
}
