package bits

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestRepair damages tables and repairs them. Either the database then shows exactly what
// was written, or the table stays as it was.
func TestRepair(t *testing.T) {
	t.Parallel()
	seed, n := dose.Seed(t), testkit.Raced(dose.Short(10, 40), 4)
	var tally outcomes
	for _, img := range RepairImages(t, Images(t)) {
		t.Run(img.name, func(t *testing.T) {
			derived, others := img.repairDamages(img.derived(t), n, seed)
			all := append(derived, others...)
			img.each(t, len(all), func(i int) (string, error) { return all[i].name, img.tryRepair(&all[i], i < len(derived), &tally) })
		})
	}
	t.Logf("%d damages were repaired or harmless, %d lost something", tally.harmless.Load(), tally.refused.Load())
	if tally.refused.Load() == 0 || tally.harmless.Load() == 0 {
		t.Error("all damages had the same outcome: the test does not damage what it means to")
	}
}
