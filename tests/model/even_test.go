package model

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestIterators_EvenKeysShowEachSnapshot plays lives of databases whose keys have one
// length.
func TestIterators_EvenKeysShowEachSnapshot(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	testkit.Must(t, testkit.Times(12, func(i int) error { return RunEven(seed + uint64(i)) }))
}
