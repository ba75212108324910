package bits

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

// TestBits damages cleanly closed databases: bits, sectors, lengths, whole
// files. Opening and reading must give an error or exactly what was written;
// never less, never more, never anything else.
func TestBits(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	flips := dose.Size(t, dose.Flips, 40, 1_000)
	dose.Reproduce(t, "bits")
	var tally outcomes
	for _, img := range Images(t) {
		t.Run(img.name, func(t *testing.T) { img.damage(t, flips, seed, &tally) })
	}
	t.Logf("%d damages: %d refused, %d harmless", tally.refused.Load()+tally.harmless.Load(), tally.refused.Load(), tally.harmless.Load())
	if tally.refused.Load() == 0 || tally.harmless.Load() == 0 {
		t.Error("all damages had the same outcome: the test does not damage what it means to")
	}
}
