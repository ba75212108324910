package backup

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestRestore_APowerCutLeavesNothingOrAllAndAnotherRestoreGoesOn(t *testing.T) {
	t.Parallel()
	cutRestores(t, RunCrashes)
}

// cutRestores plays lives in which the power is cut. run returns how many restores
// went on where another had stopped.
func cutRestores(t *testing.T, run func(seed uint64, states int) (resumed int, err error)) {
	t.Helper()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 30, 300)
	resumed := 0
	for i := range testkit.Raced(3, 1) {
		n, err := run(seed+uint64(i), states/3)
		if err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
		resumed += n
	}
	if resumed == 0 {
		t.Error("no restore went on where another had stopped")
	}
}
