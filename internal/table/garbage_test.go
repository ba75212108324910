package table

import (
	"math"
	"testing"

	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/hostile"
)

// Open compares lengths, counts and offsets with the size of the file before it
// allocates, even for a hostile file.
func TestGarbage_LengthsAllocateLittle(t *testing.T) {
	for _, how := range []codec.ID{codec.None, codec.S2, codec.Zstd} {
		entries, good := smallTable(t, how)
		err := hostile.Lengths(good, dose.Short(5*4, 4), []uint32{1 << 20, math.MaxInt32, math.MaxUint32}, 1<<20, reseal,
			func(b []byte) { exercise(t, b, entries[:3]) })
		if err != nil {
			t.Fatal(err)
		}
	}
}
