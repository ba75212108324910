package mixture

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// livesMin is how many lives do all kinds of work.
const livesMin = 20

func TestMixture(t *testing.T) {
	t.Parallel()
	seed, lives := dose.Seed(t), dose.Size(t, dose.Lives, testkit.Raced(livesMin, 4), testkit.Raced(50, 8))
	dose.Reproduce(t, "mixture")
	all := Work{}
	testkit.Lives(t, seed, lives, RunLife, all.Add)
	t.Logf("%v", all)
	if missing := all.missing(); lives >= livesMin && len(missing) > 0 {
		t.Errorf("the lives never came to %q: %v", missing, all)
	}
}
