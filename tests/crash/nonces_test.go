package crash

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestNonces_NeverRepeat watches every seal of encrypted workloads with power cuts. It is
// not parallel: it sees all ciphers of the process.
func TestNonces_NeverRepeat(t *testing.T) {
	seed := dose.Seed(t)
	seals := dose.Size(t, dose.Seals, testkit.Raced(20_000, 8_000), 50_000)
	dose.Reproduce(t, "nonces")
	keys, err := CheckNonces(seed, seals, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d seals or more with %d keys", seals, keys)
}
