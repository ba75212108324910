package event

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// A receiver that ends its goroutine, as testing.T.FailNow does, misses no later event.
func TestQueue_GoesOnWhenAReceiverEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where End that waits for ever is an error at once
		var q Queue[int]
		var got []int // one goroutine at a time delivers, and End waits for it
		tell := func(e int) {
			got = append(got, e)
			if e%2 == 0 {
				runtime.Goexit()
			}
		}
		want := []int{0, 1, 2, 3, 4}
		for _, e := range want {
			q.Emit(e, tell)
		}
		q.End()
		if !slices.Equal(got, want) {
			t.Errorf("delivered were %v, want %v", got, want)
		}
	})
}
