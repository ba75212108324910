package manifest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/hostile"
)

// The decoder compares lengths and counts with the rest of the edit before it
// allocates.
func TestGarbage_LengthsAllocateLittle(t *testing.T) {
	good := treeState(rand.New(rand.NewPCG(1, 1)), 40).snapshot().AppendTo(nil)
	if _, err := DecodeEdit(good); err != nil {
		t.Fatal(err)
	}
	err := hostile.Lengths(good, 1, []uint32{1 << 16, 1 << 30, math.MaxUint32}, 64<<10, nil,
		func(b []byte) { _, _ = DecodeEdit(b) }) // some may still be valid edits
	if err != nil {
		t.Fatal(err)
	}
}
