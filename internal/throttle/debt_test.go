package throttle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/work"
)

// newThrottle returns the throttle of a database with empty memtables.
func newThrottle() *Throttle {
	return New(Options{
		MemtableSize: 1 << 20, Group: work.NewGroup(&work.Executor{Manual: true}), Report: func(any) {},
		Fill:   func() state.Fill { return state.Fill{} },
		Failed: func() error { return nil }, Flush: func() {},
	})
}

func TestDebt_WhatCommitsOweIsBoundedAndForgiven(t *testing.T) {
	t.Parallel()
	x := newThrottle()
	for range 100 {
		x.owe(int64(time.Hour))
	}
	if owed := x.owed(); owed <= 0 || owed > owedMax {
		t.Errorf("%v are owed, want up to %v", owed, owedMax)
	}
	before := x.owed()
	x.forgive(0.25)
	if owed := x.owed(); owed > before/4 || owed <= 0 {
		t.Errorf("%v are owed, want a quarter of %v", owed, before)
	}
	x.forgive(0)
	if owed := x.owed(); owed > 0 {
		t.Errorf("%v are owed for a delay that jobs have made up for", owed)
	}
}

// A collection of files with little garbage says nothing of how fast collection can
// free space when it has to.
func TestDebt_CollectionInIdlenessIsNotTakenForItsRate(t *testing.T) {
	t.Parallel()
	x := newThrottle()
	x.Collected(3<<20, 64<<20, time.Now().Add(-time.Second))
	if ns := x.freeNsPerKiB.Load(); ns != 0 {
		t.Errorf("%d ns a KiB", ns)
	}
	x.Collected(32<<20, 64<<20, time.Now().Add(-time.Second))
	if x.freeNsPerKiB.Load() == 0 {
		t.Error("a collection that freed half of what it read says nothing")
	}
}

func TestDebt_ACancelledWaitOfValuesWrittenApartChargesNothing(t *testing.T) {
	t.Parallel()
	x := newThrottle()
	x.nsPerKiB.Store(1e6)
	x.owe(int64(owedMax / 2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.AdmitApart(ctx, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if owed := x.owed(); owed > owedMax/2 || owed <= 0 {
		t.Errorf("%v are owed, want %v", owed, owedMax/2)
	}
	// A charge beyond the limit was not added in full.
	if err := x.AdmitApart(ctx, 100<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if owed := x.owed(); owed > owedMax/2 || owed <= 0 {
		t.Errorf("%v are owed after a large charge, want %v", owed, owedMax/2)
	}
}

// Before collection was measured, commits are slowed down as on a slow device. What they
// owe by then must not hold them up once it turns out to be fast.
func TestDebt_CommitsOweLessOnceCollectionIsFaster(t *testing.T) {
	t.Parallel()
	x := newThrottle()
	use := Use{Garbage: 30 << 20, All: 130 << 20}
	x.SetDebt(0, use)
	slow := x.nsPerKiB.Load()
	x.owe(int64(4 * time.Second))
	x.freeNsPerKiB.Store(slow / 2)
	x.SetDebt(0, use)
	most := 2*time.Second + 10*time.Millisecond
	if owed := x.owed(); owed > most || owed <= 0 {
		t.Errorf("%v are owed, want 2s of 4s at twice the rate", owed)
	}
	x.freeNsPerKiB.Store(slow)
	x.SetDebt(0, use)
	if owed := x.owed(); owed > most {
		t.Errorf("%v are owed, although only later commits must be slower", owed)
	}
}

func TestThrottle_ASleepingCommitWakesWhenJobsHaveCaughtUp(t *testing.T) {
	t.Parallel()
	x := New(Options{MemtableSize: 1 << 20, Group: work.NewGroup(&work.Executor{}), Report: func(any) {},
		Fill: func() state.Fill { return state.Fill{} }})
	x.owe(int64(time.Minute))
	woken := make(chan error)
	go func() { woken <- x.sleep(t.Context(), time.Minute, 1<<40) }()
	x.forgive(0)
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the commit sleeps on")
	}
}

func TestDebt_ALoadAfterDropAllReplacesNothing(t *testing.T) {
	t.Parallel()
	x := newThrottle()
	x.LearnReplacing(0.9)
	x.SetDebt(0, Use{Garbage: 90, All: 1000})
	if x.Replacing() < 0.8 {
		t.Fatalf("a part of %v of the new values replaced others", x.Replacing())
	}
	x.SetDebt(0, Use{Garbage: 1000, All: 1000})
	if x.Replacing() != 0 {
		t.Errorf("nothing is live, and a part of %v of new values is taken to replace others", x.Replacing())
	}
}
