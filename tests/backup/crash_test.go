package backup

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestRestore_APowerCutLeavesNothingOrAllAndAnotherRestoreGoesOn(t *testing.T) {
	testkit.SkipUnderRace(t)
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 60, 300)
	resumed := 0
	for i := range 3 {
		n, err := RunCrashes(seed+uint64(i), states/3)
		if err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
		resumed += n
	}
	if resumed == 0 {
		t.Error("no restore went on where another had stopped")
	}
}
