package work

import (
	"testing"
	"time"
)

func TestActivity_LoadFallsStepByStep(t *testing.T) {
	t.Parallel()
	var a Activity
	if now, falls := a.Load(); now != Idle || falls != 0 {
		t.Errorf("before the first commit the load is %d for %v more, want %d", now, falls, Idle)
	}
	for _, c := range []struct {
		quiet  time.Duration
		want   Load
		atMost time.Duration
		falls  bool
	}{
		{0, Busy, pauseAfter, true},
		{pauseAfter, Pausing, IdleAfter - pauseAfter, true},
		{IdleAfter, Idle, 0, false},
	} {
		a.last.Store(Now() - int64(c.quiet))
		now, falls := a.Load()
		// The test itself takes time, in which the load may have fallen.
		if now < c.want || falls > c.atMost || now == c.want && falls > 0 != c.falls {
			t.Errorf("after %v the load is %d for %v more", c.quiet, now, falls)
		}
		if now, falls := loadOf(c.quiet); now != c.want || falls != c.atMost {
			t.Errorf("after exactly %v the load is %d for %v more, want %d for %v", c.quiet, now, falls, c.want, c.atMost)
		}
	}
}
