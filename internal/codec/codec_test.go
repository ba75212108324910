package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/noise"
)

// text returns n bytes that compress as well as JSON records.
func text(rng *rand.Rand, n int) []byte {
	words := []string{"river", "stone", "market", "window", "letter", "garden", "silver", "winter", "morning", "northern"}
	b := fmt.Appendf(nil, `{"id":"%016x"`, rng.Uint64())
	for len(b) < n {
		b = fmt.Appendf(b, `,"%s":{"name":"%s %s","count":%d,"active":%v}`, words[rng.IntN(10)], words[rng.IntN(10)],
			words[rng.IntN(10)], rng.IntN(10_000), rng.IntN(2) == 0)
	}
	return b[:n]
}

func mustCompressor(t testing.TB, how ID) *Compressor {
	t.Helper()
	c, err := NewCompressor(how, 64, SizeMax)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCodec_DecodesWhatItCompressed(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, how := range []ID{S2, Zstd} {
		c := mustCompressor(t, how)
		for _, size := range []int{64, 300, 1 << 10, 5000, 70_000, SizeMax} {
			raw := text(rng, size)
			id, stored := c.Compress(raw)
			if size >= 1<<10 && id != how {
				t.Errorf("%d bytes of text are stored by codec %d, want %d", size, id, how)
			}
			if id == None {
				continue
			}
			if len(stored) > size-size/8 {
				t.Errorf("%d bytes became %d: less than an eighth is saved", size, len(stored))
			}
			dst := make([]byte, size)
			if err := id.Decode(dst, stored); err != nil || !bytes.Equal(dst, raw) {
				t.Errorf("codec %d, %d bytes: decoded to something else, %v", id, size, err)
			}
			for _, wrong := range []int{0, size - 1, size + 1} {
				if err := id.Decode(make([]byte, wrong), stored); !errors.Is(err, base.ErrCorrupt) {
					t.Errorf("codec %d: %d bytes decoded to %d: %v, want ErrCorrupt", id, size, wrong, err)
				}
			}
		}
	}
}

func TestCompressor_LeavesShortAndLongValuesAsTheyAre(t *testing.T) {
	t.Parallel()
	c, err := NewCompressor(S2, 100, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 99, 201} {
		if id, _ := c.Compress(make([]byte, n)); id != None {
			t.Errorf("%d bytes are stored by codec %d, want as they are", n, id)
		}
	}
	if id, _ := c.Compress(make([]byte, 200)); id != S2 {
		t.Errorf("200 zeros are stored by codec %d, want %d", id, S2)
	}
}

func TestCompressor_RestsOnDataThatDoesNotShrink(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 2))
	c := mustCompressor(t, S2)
	for range missesMax {
		c.Compress(noise.Bytes(rng, 1000))
	}
	first := 0
	for i := 1; first == 0; i++ {
		if id, _ := c.Compress(text(rng, 1000)); id != None {
			first = i
		}
	}
	if first != sampleEvery {
		t.Errorf("text is compressed again at the attempt %d, want %d", first, sampleEvery)
	}
	if id, _ := c.Compress(text(rng, 1000)); id != S2 {
		t.Error("after one that shrank the next is not tried")
	}
}
