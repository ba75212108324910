package codec

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// FuzzDecode decodes any bytes to any length. Decode returns ErrCorrupt, or
// bytes that survive compressing and decoding again.
func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 3))
	for _, how := range []ID{S2, Zstd} {
		for _, size := range []int{64, 300, 5000} {
			raw := text(rng, size)
			_, stored := mustCompressor(f, how).Compress(raw)
			f.Add(byte(how), uint32(size), bytes.Clone(stored))
			f.Add(byte(how), uint32(size+1), bytes.Clone(stored))
		}
	}
	// Headers that promise more bytes than there are.
	f.Add(byte(S2), uint32(1<<20), []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0})
	f.Add(byte(Zstd), uint32(1<<20), []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80})
	f.Add(byte(3), uint32(10), []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, how byte, n uint32, stored []byte) {
		const spare = 8
		buf := make([]byte, min(n, SizeMax)+spare)
		dst := buf[: len(buf)-spare : len(buf)-spare]
		if err := ID(how).Decode(dst, stored); err != nil {
			if !errors.Is(err, base.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
		} else {
			id, again := mustCompressor(t, ID(how)).Compress(dst)
			back := make([]byte, len(dst))
			if id == None {
				copy(back, again)
			} else if err := id.Decode(back, again); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(back, dst) {
				t.Fatal("what was compressed again is something else")
			}
		}
		if !bytes.Equal(buf[len(dst):], make([]byte, spare)) {
			t.Fatal("something was written behind the memory")
		}
	})
}
