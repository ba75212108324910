package bits

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestSalvage_CopiesAnIntactDatabase(t *testing.T) {
	t.Parallel()
	for _, img := range salvageImages(t) {
		for _, ignore := range []bool{false, true} {
			t.Run(img.name, func(t *testing.T) {
				disk := img.disk.Clone()
				report, _, err := img.salvage(disk, stoat.SalvageOptions{IgnoreManifest: ignore})
				testkit.Must(t, err)
				if len(report.Lost) > 0 || report.Manifest == ignore {
					t.Errorf("report of an intact database: %+v", report)
				}
				t.Logf("%+v", report)
			})
		}
	}
}

// TestSalvage damages databases and salvages them. The new database must have all that
// is outside of the damage, and nothing that was never written.
func TestSalvage(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	flips := dose.Size(t, dose.Flips, testkit.Raced(20, 6), testkit.Raced(40, 20))
	dose.Reproduce(t, "salvage")
	var tally outcomes
	for _, img := range salvageImages(t) {
		t.Run(img.name, func(t *testing.T) {
			a, damages := img.dissect(t), img.salvageDamages(flips, seed)
			img.each(t, len(damages), func(n int) (string, error) { return damages[n].name, img.trySalvage(&damages[n], a, &tally) })
		})
	}
	t.Logf("%d damages lost something, %d nothing", tally.refused.Load(), tally.harmless.Load())
	if tally.refused.Load() == 0 || tally.harmless.Load() == 0 {
		t.Error("all damages had the same outcome: the test does not damage what it means to")
	}
}
