package values

import (
	"math"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/hostile"
)

// Open compares lengths, counts and offsets with the size of the file before it
// allocates, even for a hostile file.
func TestGarbage_LengthsAllocateLittle(t *testing.T) {
	for _, remapped := range []bool{false, true} {
		good, values := smallFile(t, remapped)
		err := hostile.Lengths(good, 4, []uint32{1 << 20, math.MaxInt32, math.MaxUint32}, 1<<20,
			func(b []byte) bool { reseal(b); return true }, func(b []byte) { survive(t, b, values) })
		if err != nil {
			t.Fatal(err)
		}
	}
}
