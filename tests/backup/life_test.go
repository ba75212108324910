package backup

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

func TestBackup_AChainOfIncrementalBackupsIsTheOriginal(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range dose.Short(1, 4) {
		if err := RunLife(seed+uint64(i), 20); err != nil {
			t.Fatalf("life %d: %v", seed+uint64(i), err)
		}
	}
}
