package backup

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

func TestFileBackup_ALifeOfBackupsRestoresToEachSnapshot(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range dose.Short(2, 8) {
		if err := RunFiles(seed+uint64(i), 20); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}

func TestFileBackupDamages_EachIsRefused(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	dose.Reproduce(t, "backup-damages")
	n := dose.Size(t, dose.Flips, 200, 1000)
	for i := range 4 {
		if err := RunFileDamages(seed+uint64(i), n/4); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}
