package stoat

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/compact"
)

func TestFilter_AValueThatIsTooLongIsAFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		decision FilterDecision
		n        uint64
		want     compact.Decision
		fails    error
	}{
		{FilterRewrite, MaxValueSize, compact.ScreenRewrite, nil},
		{FilterRewrite, MaxValueSize + 1, compact.ScreenKeep, ErrValueTooLarge},
		{FilterDrop, MaxValueSize + 1, compact.ScreenDrop, nil},
		{FilterKeep, MaxValueSize + 1, compact.ScreenKeep, nil},
	} {
		if got, err := screened(c.decision, c.n); got != c.want || !errors.Is(err, c.fails) {
			t.Errorf("decision %d with %d bytes becomes %d, %v; want %d, %v", c.decision, c.n, got, err, c.want, c.fails)
		}
	}
}
