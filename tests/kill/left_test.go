package kill

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestLeft demands that the files of a database have each commit as soon as it returns.
func TestLeft(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	testkit.Must(t, testkit.Times(2, func(i int) error { return RunLeft(seed + uint64(i)) }))
}
