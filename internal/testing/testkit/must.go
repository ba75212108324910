package testkit

import (
	"errors"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

// Must fails the test at once if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// MustBeSound demands that Check finds nothing.
func MustBeSound(t *testing.T, db *stoat.DB) *stoat.CheckReport {
	t.Helper()
	report, err := db.Check(t.Context(), stoat.CheckOptions{})
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	return report
}

// WantError marks the test as failed unless errors.Is(got, want).
func WantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// Eventually waits up to a minute for background jobs to make cond true.
func Eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}
