package crash

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

// TestNonces_NeverRepeat is not parallel: it watches all ciphers of the process.
func TestNonces_NeverRepeat(t *testing.T) {
	seed := dose.Seed(t)
	workloads := 10
	if testing.Short() {
		workloads = 4
	}
	if err := CheckNonces(seed, workloads, 4); err != nil {
		t.Fatal(err)
	}
}
