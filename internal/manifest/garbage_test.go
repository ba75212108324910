package manifest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/hostile"
)

// Lengths and counts are held against what is left of an edit before anything
// is allocated for them.
func TestLengthsOfGarbageAllocateLittle(t *testing.T) {
	good := treeState(rand.New(rand.NewPCG(1, 1)), 40).snapshot().AppendTo(nil)
	if _, err := DecodeEdit(good); err != nil {
		t.Fatal(err)
	}
	err := hostile.Lengths(good, 1, []uint32{1 << 16, 1 << 30, math.MaxUint32}, 64<<10, nil,
		func(b []byte) { _, _ = DecodeEdit(b) }) // some still are edits
	if err != nil {
		t.Fatal(err)
	}
}
