package schedules

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

func TestCrowded_AScanReadsWhatItAnnouncedWhileMemoryWasCrowded(t *testing.T) {
	t.Parallel()
	if err := RunCrowded(dose.Seed(t), dose.Short(5, 20)); err != nil {
		t.Fatal(err)
	}
}
