//go:build invariants

package lock

import (
	"strings"
	"testing"
)

func TestOrder_RisingRanksAreTaken(t *testing.T) {
	t.Parallel()
	var outer Mutex[Installing]
	var inner Mutex[Changing]
	for range 2 {
		outer.Lock()
		inner.Lock()
		outer.Unlock() // the order of giving back does not matter
		inner.Unlock()
	}
}

func TestOrder_FallingOrEqualRanksPanic(t *testing.T) {
	t.Parallel()
	var inner Mutex[Changing]
	var outer Mutex[Installing]
	var same Mutex[Changing]
	for name, take := range map[string]func(){"falling": outer.Lock, "equal": same.Lock} {
		inner.Lock()
		if text := panics(take); !strings.Contains(text, "while changing") {
			t.Errorf("%s: %q", name, text)
		}
		inner.Unlock()
	}
}

func TestOrder_TryLockIsCheckedAgainstLater(t *testing.T) {
	t.Parallel()
	var tried Mutex[Sweeping]
	var outer Mutex[Build]
	if !tried.TryLock() {
		t.Fatal("a free lock is not taken")
	}
	defer tried.Unlock()
	if panics(outer.Lock) == "" {
		t.Error("a lock of a lower rank was taken under a tried one")
	}
}

func TestOrder_GoroutinesAreToldApart(t *testing.T) {
	t.Parallel()
	var inner Mutex[Changing]
	var outer Mutex[Installing]
	inner.Lock()
	defer inner.Unlock()
	done := make(chan string)
	go func() { done <- panics(func() { outer.Lock(); defer outer.Unlock() }) }()
	if text := <-done; text != "" {
		t.Error(text)
	}
}

func panics(fn func()) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = p.(string)
		}
	}()
	fn()
	return ""
}
