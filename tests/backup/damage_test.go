package backup

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

func TestBackupDamages_EachIsRefused(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	flips := dose.Size(t, dose.Flips, 600, 3000)
	dose.Reproduce(t, "backup-damages")
	if flips < 1 {
		t.Fatalf("%d damages, want 1 or more", flips)
	}
	const perLife = 5000
	for i := 0; flips > 0; i++ {
		if err := RunDamages(seed+uint64(i), min(flips, perLife)); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
		flips -= perLife
	}
}
