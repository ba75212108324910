package stress

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestCrowded_ReadersSeeTheirSnapshotsWhateverMemoryIsLeft(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	testkit.Must(t, testkit.Times(dose.Short(2, 6), func(i int) error { return RunCrowded(seed+uint64(i), 12) }))
}
