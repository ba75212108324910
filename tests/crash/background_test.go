package crash

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

func TestAhead_ASyncInTheBackgroundCountsForWhatItCovers(t *testing.T) {
	t.Parallel()
	if err := CheckAhead(dose.Short(2, 10)); err != nil {
		t.Fatal(err)
	}
}

func TestPending_FullSegmentsMayBecomeDurableLater(t *testing.T) {
	t.Parallel()
	if err := CheckPending(t, dose.Seed(t), dose.Size(t, dose.Lives, 4, 40)); err != nil {
		t.Fatal(err)
	}
}

func TestTurns_AFailedSyncFailsUpdatesThatReadAhead(t *testing.T) {
	t.Parallel()
	if err := CheckFailedTurns(dose.Seed(t), dose.Short(10, 40)); err != nil {
		t.Fatal(err)
	}
}
