package isolation

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/isolation"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestIsolation records histories of concurrent transactions and proves each strictly
// serializable. Half of them run beside flushes, compactions and collections. Now and
// then the power is cut after one, and the next goes on from what is left.
func TestIsolation(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	histories := dose.Size(t, dose.Histories, 20, 120)
	dose.Reproduce(t, "isolation")
	var met tally
	disks := (histories + historiesPerDisk - 1) / historiesPerDisk
	testkit.Must(t, testkit.InParallel(disks, func(disk int) error {
		n := disk * historiesPerDisk
		return historiesOf(seed+uint64(n), min(historiesPerDisk, histories-n), &met)
	}))
	t.Logf("%d conflicts, %d with merges, %d at timestamps; beside them %d flushes, %d compactions, %d collections",
		met.conflicts.Load(), met.merges.Load(), met.times.Load(), met.flushes.Load(), met.compactions.Load(), met.collections.Load())
	if met.conflicts.Load() == 0 {
		t.Error("no transaction met a conflict: the histories prove nothing")
	}
	// Few histories may all have drawn a database that does nothing besides.
	if histories >= 100 && (met.merges.Load() == 0 || met.times.Load() == 0) {
		t.Error("no transaction met a conflict beside merges, or at timestamps")
	}
	if histories >= 100 && (met.flushes.Load() == 0 || met.compactions.Load() == 0 || met.collections.Load() == 0) {
		t.Error("nothing was flushed, compacted or collected beside the histories")
	}
	if histories >= 100 && met.filtered.Load() == 0 {
		t.Error("no filter has rewritten a value beside the histories")
	}
}

// TestApplications runs workloads with invariants that only serializable
// transactions keep.
func TestApplications(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	rounds := max(1, dose.Size(t, dose.Histories, 11, 55)/len(isolation.Applications()))
	dose.Reproduce(t, "isolation")
	for i := range isolation.Applications() {
		name := isolation.Applications()[i].Name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conflicts := 0
			for round := range rounds {
				n, err := PlayApplication(i, seed+uint64(round))
				conflicts += n
				if err != nil {
					t.Fatalf("seed %d: %v", seed+uint64(round), err)
				}
			}
			t.Logf("%d conflicts in %d rounds", conflicts, rounds)
			if rounds >= 5 && conflicts == 0 {
				t.Error("no transaction met a conflict: the invariant proves nothing")
			}
		})
	}
}
