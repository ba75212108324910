package backup

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

func TestSortedDamages_EachIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	dose.Reproduce(t, "backup-damages")
	n := dose.Size(t, dose.Flips, 200, 2000)
	for i := range 4 {
		if err := RunSorted(seed+uint64(i), max(1, n/4)); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}
