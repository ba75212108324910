package work

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestExecutor_WidthOfAManualJobIsOne(t *testing.T) {
	t.Parallel()
	if got := new(Executor).Width(3); got != 3 {
		t.Errorf("width %d of a job in production, want 3", got)
	}
	if got := (&Executor{Manual: true}).Width(3); got != 1 {
		t.Errorf("width %d of a manual job, want 1", got)
	}
}

// The functions meet in the middle: each waits for the other.
func TestExecutor_ParallelFunctionsRunBesideEachOther(t *testing.T) {
	t.Parallel()
	a, b := make(chan bool), make(chan bool)
	new(Executor).Parallel(
		func() { a <- true; <-b },
		func() { <-a; b <- true },
	)
}

func TestExecutor_ParallelWaitsForAll(t *testing.T) {
	t.Parallel()
	var ended atomic.Int32
	count := func() { ended.Add(1) }
	new(Executor).Parallel(count, count, count)
	if got := ended.Load(); got != 3 {
		t.Errorf("%d functions have ended when Parallel returns, want 3", got)
	}
}

func TestExecutor_ParallelWaitsForTheOthersWhenTheFirstFunctionPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			new(Executor).Parallel(
				func() { panic("on purpose") },
				func() { time.Sleep(time.Second); ended.Store(true) },
			)
		}()
		if !ended.Load() {
			t.Error("a function goes on when Parallel has ended")
			time.Sleep(time.Minute) // it ends before the bubble
		}
	})
}

// A manual executor has one thread: it runs functions in order. The race detector
// sees a function on another goroutine.
func TestExecutor_ParallelIsInOrderWhenManual(t *testing.T) {
	t.Parallel()
	var order []int
	(&Executor{Manual: true}).Parallel(
		func() { order = append(order, 1) },
		func() { order = append(order, 2) },
		func() { order = append(order, 3) },
	)
	if want := []int{1, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestExecutor_ReachIsToldOfPoints(t *testing.T) {
	t.Parallel()
	var reached []Point
	e := Executor{Reach: func(p Point) { reached = append(reached, p) }}
	e.At(PointPicked)
	e.At(PointCopy)
	if want := []Point{PointPicked, PointCopy}; !slices.Equal(reached, want) {
		t.Errorf("reached %v, want %v", reached, want)
	}
	new(Executor).At(PointPicked) // nothing is told
}
