package model

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestAging_ValuesExpireAndKeysOfTheEncryptionAreReplaced plays lives while time passes.
func TestAging_ValuesExpireAndKeysOfTheEncryptionAreReplaced(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	testkit.Must(t, testkit.Times(dose.Short(4, 20), func(i int) error { return RunAging(seed + uint64(i)) }))
}
