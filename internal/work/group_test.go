package work

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/base"
)

var errStep = errors.New("the step failed")

// inGroup runs fn with a group, in a bubble of its own time.
func inGroup(t *testing.T, fn func(t *testing.T, g *Group)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(new(Executor))
		defer g.End()
		fn(t, g)
	})
}

func TestGroup_EnterAfterEndIsRefused(t *testing.T) {
	inGroup(t, func(t *testing.T, g *Group) {
		if !g.Enter() {
			t.Fatal("a running group refuses to be entered")
		}
		ended := make(chan struct{})
		go func() { g.End(); close(ended) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("End does not wait for what has entered")
		default:
		}
		if g.Enter() {
			t.Error("a group that ends is entered")
		}
		if g.Works() || !errors.Is(g.Err(), ErrStopped) {
			t.Errorf("a group that ends works: %t, its error is %v", g.Works(), g.Err())
		}
		g.Leave()
		<-ended
	})
}

func TestGroup_AManualOneWorksNot(t *testing.T) {
	t.Parallel()
	g := NewGroup(&Executor{Manual: true})
	w := NewWorker(new(Executor), RetryAfter)
	g.Run(w, 0, func() (time.Duration, error) { t.Error("a manual group runs a step"); return 0, nil })
	w.Wake()
	if g.Works() || g.Err() != nil {
		t.Errorf("a manual group works: %t, its error is %v", g.Works(), g.Err())
	}
	g.End()
}

func TestGroup_SleepEnds(t *testing.T) {
	inGroup(t, func(t *testing.T, g *Group) {
		slept := func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			err := g.Sleep(ctx, time.Hour)
			return time.Since(began), err
		}
		if took, err := slept(context.Background()); took != time.Hour || err != nil {
			t.Errorf("slept %s, %v, want an hour", took, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if took, err := slept(ctx); took != time.Minute || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("slept %s, %v, want a minute and the error of the context", took, err)
		}
		time.AfterFunc(time.Second, g.End)
		if took, err := slept(context.Background()); took != time.Second || err != nil {
			t.Errorf("slept %s, %v, want until the end of the group", took, err)
		}
	})
}

func TestOperation_InterruptedTellsWhy(t *testing.T) {
	inGroup(t, func(t *testing.T, g *Group) {
		reason := errors.New("the reason of the caller")
		caller, cancel := context.WithCancelCause(context.Background())
		ctx, end, err := g.Begin(caller)
		if err != nil || Interrupted(ctx) != nil {
			t.Fatalf("begin: %v, interrupted: %v", err, Interrupted(ctx))
		}
		cancel(reason)
		<-ctx.Done()
		if err := Interrupted(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, base.ErrClosed) {
			t.Errorf("interrupted by the caller: %v", err)
		}
		end()
		if _, _, err := g.Begin(caller); !errors.Is(err, context.Canceled) {
			t.Errorf("begin with a context that is done: %v", err)
		}

		ctx, end, err = g.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { g.End(); close(ended) }()
		<-ctx.Done()
		if err := Interrupted(ctx); !errors.Is(err, base.ErrClosed) {
			t.Errorf("interrupted by Close: %v, want ErrClosed", err)
		}
		synctest.Wait()
		select {
		case <-ended:
			t.Error("End does not wait for an operation")
		default:
		}
		end()
		<-ended
		if _, _, err := g.Begin(t.Context()); !errors.Is(err, base.ErrClosed) {
			t.Errorf("begin after the end: %v, want ErrClosed", err)
		}
	})
}

// While Close waits for commits, those may enter. Operations end, and no other begins.
func TestOperation_RefusedBeforeTheEnd(t *testing.T) {
	inGroup(t, func(t *testing.T, g *Group) {
		ctx, end, err := g.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g.Refuse()
		<-ctx.Done()
		if err := Interrupted(ctx); !errors.Is(err, base.ErrClosed) {
			t.Errorf("interrupted: %v, want ErrClosed", err)
		}
		end()
		if !g.Works() || g.Err() != nil {
			t.Errorf("the workers go on: %t, the error of the group is %v", g.Works(), g.Err())
		}
		if _, _, err := g.Begin(t.Context()); !errors.Is(err, base.ErrClosed) {
			t.Errorf("begin: %v, want ErrClosed", err)
		}
		if !g.Enter() {
			t.Fatal("a commit cannot enter")
		}
		g.Leave()
	})
}

// steps runs a worker and returns the moments of its steps. step gets the number of
// the step, from 1 on. wake is when the worker is woken.
func steps(t *testing.T, retryMax time.Duration, patient bool, wake []time.Duration, step func(n int) (time.Duration, error)) (at []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, w := NewGroup(new(Executor)), NewWorker(new(Executor), retryMax)
		w.Patient = patient
		began := time.Now()
		g.Run(w, second, func() (time.Duration, error) {
			at = append(at, time.Since(began))
			return step(len(at))
		})
		for _, d := range wake {
			time.AfterFunc(d, w.Wake)
		}
		time.Sleep(5 * time.Minute)
		g.End()
	})
	return at
}

const second = time.Second

func TestWorker_StepsWhenItIsWokenOrWantsTo(t *testing.T) {
	t.Parallel()
	at := steps(t, RetryMax, false, []time.Duration{5 * second}, func(n int) (time.Duration, error) {
		if n == 2 {
			return 7 * second, nil
		}
		return 0, nil
	})
	if want := []time.Duration{second, 5 * second, 12 * second}; !slices.Equal(at, want) {
		t.Errorf("steps at %v, want %v", at, want)
	}
}

func TestWorker_RetriesAfterErrors(t *testing.T) {
	t.Parallel()
	// The wait doubles up to the maximum, and a success ends that.
	fails := func(n int) (time.Duration, error) {
		if n == 5 {
			return second, nil
		}
		if n > 7 {
			return 0, nil
		}
		return 0, errStep
	}
	at := steps(t, 4*second, false, nil, fails)
	want := []time.Duration{1 * second, 2 * second, 4 * second, 8 * second, 12 * second, 13 * second, 14 * second, 16 * second}
	if !slices.Equal(at, want) {
		t.Errorf("steps at %v, want %v", at, want)
	}
}

func TestWorker_AStepMayChooseTheWaitAfterAnError(t *testing.T) {
	t.Parallel()
	at := steps(t, RetryMax, false, nil, func(n int) (time.Duration, error) {
		if n > 4 {
			return 0, nil
		}
		return 10 * second, errStep
	})
	if want := []time.Duration{second, 11 * second, 21 * second, 31 * second, 41 * second}; !slices.Equal(at, want) {
		t.Errorf("steps at %v, want %v", at, want)
	}
}

func TestWorker_OnlyAPatientOneWaitsAfterAnError(t *testing.T) {
	t.Parallel()
	for _, patient := range []bool{false, true} {
		wake := []time.Duration{1500 * time.Millisecond, 1700 * time.Millisecond}
		at := steps(t, RetryMax, patient, wake, func(n int) (time.Duration, error) {
			if n == 1 {
				return 0, errStep
			}
			return 0, nil
		})
		want := []time.Duration{second, wake[0], wake[1]}
		if patient {
			want = []time.Duration{second, 2 * second, 2 * second} // the wake-up counts after it
		}
		if !slices.Equal(at, want) {
			t.Errorf("patient %t: steps at %v, want %v", patient, at, want)
		}
	}
}
