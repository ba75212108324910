package model

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestFilter_NeverUncoversNorChangesWhatATransactionSees plays lives with a compaction
// filter.
func TestFilter_NeverUncoversNorChangesWhatATransactionSees(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	testkit.Must(t, testkit.Times(6, func(i int) error { return RunFiltered(seed + uint64(i)) }))
}
