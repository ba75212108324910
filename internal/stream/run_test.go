package stream

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// numbers are ranges 0 to n-1. Each has three batches: 10r, 10r+1, 10r+2.
func numbers(n int, fail error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if fail != nil {
			yield(0, fail)
		}
	}
}

func three(_ context.Context, r int, emit func(int) error) error {
	for i := range 3 {
		if r%2 == 0 {
			runtime.Gosched()
		}
		if err := emit(10*r + i); err != nil {
			return err
		}
	}
	return nil
}

func TestRun_SendsEachBatchOnceAndInOrderIfAsked(t *testing.T) {
	t.Parallel()
	var want []int
	for r := range 200 {
		want = append(want, 10*r, 10*r+1, 10*r+2)
	}
	for _, workers := range []int{0, 1, 3, 1000} {
		for _, ordered := range []bool{false, true} {
			var got []int
			err := Run(context.Background(), Plan[int, int]{Workers: workers, Ordered: ordered, Ranges: numbers(200, nil), Read: three,
				Send: func(b int) error { got = append(got, b); return nil }})
			if !ordered {
				slices.Sort(got)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%d workers, ordered %t: %d batches, %v", workers, ordered, len(got), err)
			}
		}
	}
}

func TestRun_ReturnsTheFirstErrorWhenAllGoroutinesHaveEnded(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, ordered := range []bool{false, true} {
		for name, change := range map[string]func(p *Plan[int, int], cancel func()){
			"ranges": func(p *Plan[int, int], _ func()) { p.Ranges = numbers(20, broken) },
			"read": func(p *Plan[int, int], _ func()) {
				p.Read = func(ctx context.Context, r int, emit func(int) error) error {
					if r == 70 {
						return broken
					}
					return three(ctx, r, emit)
				}
			},
			"send": func(p *Plan[int, int], _ func()) {
				n := 0
				p.Send = func(int) error {
					if n++; n == 50 {
						return broken
					}
					if n > 50 {
						t.Error("a batch was sent after an error")
					}
					return nil
				}
			},
			"context": func(p *Plan[int, int], cancel func()) {
				p.Send = func(b int) error {
					if b > 300 {
						cancel()
					}
					return nil
				}
			},
		} {
			var reading atomic.Int64
			ctx, cancel := context.WithCancelCause(context.Background())
			p := Plan[int, int]{Workers: 4, Ordered: ordered, Ranges: numbers(1000, nil), Read: three, Send: func(int) error { return nil }}
			change(&p, func() { cancel(broken) })
			read := p.Read
			p.Read = func(ctx context.Context, r int, emit func(int) error) error {
				reading.Add(1)
				defer reading.Add(-1)
				return read(ctx, r, emit)
			}
			want := broken
			if name == "context" {
				want = context.Canceled // the cause is for the caller
			}
			if err := Run(ctx, p); err != want || reading.Load() != 0 {
				t.Errorf("%s, ordered %t: %v, %d are reading", name, ordered, err, reading.Load())
			}
			cancel(nil)
		}
	}
}

// A caller that has seen enough need not wait until everything is read.
func TestRun_AnErrorOfSendStopsTheReaders(t *testing.T) {
	t.Parallel()
	enough, late := errors.New("enough"), errors.New("late")
	for _, ordered := range []bool{false, true} {
		var begun atomic.Int64
		err := Run(context.Background(), Plan[int, int]{Workers: 4, Ordered: ordered, Ranges: numbers(100_000, nil),
			Read: func(ctx context.Context, r int, emit func(int) error) error {
				if begun.Add(1) > 1000 {
					return late
				}
				return three(ctx, r, emit)
			},
			Send: func(int) error { return enough },
		})
		if err != enough || begun.Load() > 100 {
			t.Errorf("ordered %t: %v after %d ranges were read", ordered, err, begun.Load())
		}
	}
}

// unwound calls fn on a goroutine of its own, and returns what it panicked with when it has
// ended, by runtime.Goexit or otherwise.
func unwound(fn func()) (panicked any) {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		fn()
	}()
	return <-done
}

func TestRun_NothingReadsWhenAPanicOrGoexitOfSendUnwindsIt(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		for what, leave := range map[string]func(){"panic": func() { panic("on purpose") }, "Goexit": runtime.Goexit} {
			synctest.Test(t, func(t *testing.T) {
				var reading, dealing atomic.Int64
				ended := -1
				panicked := unwound(func() {
					defer func() { ended = int(reading.Load() + dealing.Load()) }()
					sent := 0
					_ = Run(context.Background(), Plan[int, int]{Workers: 4, Ordered: ordered,
						Ranges: func(yield func(int, error) bool) {
							dealing.Add(1)
							defer dealing.Add(-1)
							numbers(1000, nil)(yield)
						},
						Read: func(ctx context.Context, r int, emit func(int) error) error {
							reading.Add(1)
							defer reading.Add(-1)
							err := three(ctx, r, emit)
							time.Sleep(time.Minute) // of a bubble: longer than the unwinding
							return err
						},
						Send: func(int) error {
							if sent++; sent == 50 {
								leave()
							}
							return nil
						}})
				})
				if ended != 0 || (panicked != nil) != (what == "panic") {
					t.Errorf("%s, ordered %t: %d goroutines run, and the caller recovers %v", what, ordered, ended, panicked)
				}
			})
		}
	}
}

func TestRun_GoexitOfReadIsAnError(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		err := Run(context.Background(), Plan[int, int]{Workers: 4, Ordered: ordered, Ranges: numbers(1000, nil),
			Read: func(ctx context.Context, r int, emit func(int) error) error {
				if r == 70 {
					runtime.Goexit()
				}
				return three(ctx, r, emit)
			},
			Send: func(int) error { return nil }})
		if !errors.Is(err, errGoexit) {
			t.Errorf("ordered %t: %v", ordered, err)
		}
	}
}

// A consumer that does not take batches stops the workers: a bounded number of batches
// waits.
func TestRun_ASlowConsumerStopsTheWorkers(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const workers = 3
			var made atomic.Int64
			first := true
			err := Run(context.Background(), Plan[int, int]{Workers: workers, Ordered: ordered, Ranges: numbers(400, nil),
				Read: func(_ context.Context, r int, emit func(int) error) error {
					for range 20 {
						made.Add(1)
						if err := emit(r); err != nil {
							return err
						}
					}
					return nil
				},
				Send: func(int) error {
					if first {
						first = false
						time.Sleep(time.Hour) // until all goroutines are blocked
						if n := made.Load(); n > (3*workers+1)*(room+1) {
							t.Errorf("ordered %t: %d batches were made", ordered, n)
						}
					}
					return nil
				}})
			if err != nil || made.Load() != 400*20 {
				t.Errorf("ordered %t: %d batches, %v", ordered, made.Load(), err)
			}
		})
	}
}
