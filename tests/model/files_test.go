package model

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestFiles_AreWhatTheirKeysSay compares keys shown as files with another file system.
func TestFiles_AreWhatTheirKeysSay(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	testkit.Must(t, testkit.Times(dose.Short(3, 20), func(i int) error { return RunFiles(seed + uint64(i)) }))
}
