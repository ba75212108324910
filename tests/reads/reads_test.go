package reads

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestReads plays lives with power cuts and restarts.
func TestReads(t *testing.T) {
	t.Parallel()
	seed, lives := dose.Seed(t), dose.Size(t, dose.Lives, 4, 10)
	dose.Reproduce(t, "reads")
	var all Work
	testkit.Lives(t, seed, lives, func(seed uint64) (Work, error) { return RunLife(seed, 200) }, all.Add)
	t.Logf("%+v", all)
	if all.Streams == 0 || all.Batches < all.Streams || all.Estimates == 0 || all.Cuts == 0 || all.Numbers == 0 || all.Taken == 0 {
		t.Errorf("the lives came to too little: %+v", all)
	}
}
