package noise

import (
	"bytes"
	"compress/flate"
	"math/rand/v2"
	"testing"
)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestNoise_DoesNotShrink(t *testing.T) {
	t.Parallel()
	const n = 64 << 10
	var small bytes.Buffer
	w, err := flate.NewWriter(&small, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(Bytes(newRand(), n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if small.Len() < n {
		t.Errorf("%d bytes became %d", n, small.Len())
	}
}

func TestFill_FillsEveryByteAndNoOther(t *testing.T) {
	t.Parallel()
	const most = 40
	for n := range most {
		changed := make([]bool, most)
		for seed := range uint64(20) {
			b := make([]byte, most)
			Fill(rand.New(rand.NewPCG(seed, 1)), b[:n])
			for i := range b {
				changed[i] = changed[i] || b[i] != 0
			}
		}
		for i, got := range changed {
			if got != (i < n) {
				t.Fatalf("of %d bytes: byte %d filled: %v", n, i, got)
			}
		}
	}
}

func TestNoise_FollowsFromTheSeed(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(Bytes(newRand(), 1001), Bytes(newRand(), 1001)) {
		t.Error("one seed gives two noises")
	}
}
