package model

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestSnapshotAges_EndReadsAndFreeWhatTheyHeld plays lives whose snapshots end at their greatest age.
func TestSnapshotAges_EndReadsAndFreeWhatTheyHeld(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	testkit.Must(t, testkit.Times(dose.Short(3, 10), func(i int) error { return RunSnapshotAges(t, seed+uint64(i)) }))
}
