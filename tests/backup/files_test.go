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

func TestFileBackup_APowerCutLeavesEveryListedBackupWhole(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 60, 300)
	for i := range 3 {
		if err := RunFileCrashes(seed+uint64(i), states/3); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}

func TestFileRestore_APowerCutLeavesNothingOrAllAndAnotherRestoreGoesOn(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, 60, 300)
	resumed := 0
	for i := range 3 {
		n, err := RunFileRestoreCrashes(seed+uint64(i), states/3)
		if err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
		resumed += n
	}
	if resumed == 0 {
		t.Error("no restore went on where another had stopped")
	}
}

func TestFileBackup_AFailingDiskLeavesEveryListedBackupWhole(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	failed := 0
	for i := range 4 {
		n, err := RunFileFaults(seed+uint64(i), dose.Short(20, 100))
		if err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
		failed += n
	}
	if failed == 0 {
		t.Error("no call failed")
	}
}
