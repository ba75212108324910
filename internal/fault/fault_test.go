package fault_test

import (
	"errors"
	"runtime/debug"
	"testing"

	"github.com/stoatdb/stoat/internal/fault"
)

// guarded reports whether faults of this goroutine are panics.
func guarded() bool {
	was := debug.SetPanicOnFault(true)
	debug.SetPanicOnFault(was)
	return was
}

func TestScope_TheOuterOneTurnsTheGuardOnAndOff(t *testing.T) {
	t.Parallel()
	inner := func() (err error) {
		s := fault.Enter()
		defer s.Leave(&err)
		if s {
			t.Error("the inner scope has turned the guard on")
		}
		return nil
	}
	outer := func() (err error) {
		defer fault.Enter().Leave(&err)
		if err := inner(); err != nil || !guarded() {
			t.Errorf("after the inner scope: guarded %t, error %v", guarded(), err)
		}
		return nil
	}
	if err := outer(); err != nil || guarded() {
		t.Errorf("after the outer scope: guarded %t, error %v", guarded(), err)
	}
	if err := fault.Guard(inner); err != nil || guarded() {
		t.Errorf("after a guard: guarded %t, error %v", guarded(), err)
	}
}

func TestGuard_ReturnsTheErrorOfItsFunction(t *testing.T) {
	t.Parallel()
	want := errors.New("on purpose")
	if err := fault.Guard(func() error { return want }); err != want {
		t.Errorf("got %v", err)
	}
}

// A panic that is no fault in a mapped file goes on, and the guard is off after it.
func TestPanic_ThatIsNoFaultGoesOn(t *testing.T) {
	t.Parallel()
	scope := func() (err error) {
		defer fault.Enter().Leave(&err)
		panic("on purpose")
	}
	for what, run := range map[string]func() error{
		"Scope": scope,
		"Guard": func() error { return fault.Guard(func() error { panic("on purpose") }) },
		"both":  func() error { return fault.Guard(scope) },
	} {
		func() {
			defer func() {
				if p := recover(); p != "on purpose" || guarded() {
					t.Errorf("%s: recovered %v, guarded %t", what, p, guarded())
				}
			}()
			err := run()
			t.Errorf("%s: returned %v", what, err)
		}()
	}
}
