package follow

import (
	"context"
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/manifest"
)

func TestFollower_CallsWaitForARoundNoLongerThanTheirContext(t *testing.T) {
	t.Parallel()
	f := New(Options{}, manifest.State{})
	f.mu.Lock() // as a round does
	defer f.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Still":   func() error { return f.Still(ctx, func() error { return nil }) },
		"holdAll": func() error { return f.holdAll(ctx, new(Pinned)) },
	} {
		ended := make(chan error)
		go func() { ended <- call() }() // locks are ranked by goroutine
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
	}
}
