package schedules

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestCuts_ShowTheSameAsBefore(t *testing.T) {
	t.Parallel()
	seed, cuts := dose.Seed(t), 0
	lives := dose.Short(5, 30)
	testkit.Lives(t, seed, lives, RunCuts, func(n int) { cuts += n })
	if cuts < 5*lives {
		t.Errorf("%d tables were cut in %d lives, want more", cuts, lives)
	}
}
