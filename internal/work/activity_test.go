package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/testing/script"
)

// TestLoad_Scripts runs the cases in testdata/load. The output is the load after
// so much time without a commit, and in how much time it falls.
func TestLoad_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/load", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "load" {
				c.Unknown(t)
			}
			quiet, err := time.ParseDuration(c.String("quiet", ""))
			if err != nil {
				t.Fatal(c.Pos, err)
			}
			now, falls := loadOf(quiet)
			return fmt.Sprintf("%s, falls in %s", [...]string{Busy: "busy", Pausing: "pausing", Idle: "idle"}[now], falls)
		}
	})
}

func TestActivity_IdleBeforeTheFirstCommit(t *testing.T) {
	t.Parallel()
	var a Activity
	if now, falls := a.Load(); now != Idle || falls != 0 {
		t.Errorf("load %d falls in %s before a commit, want idle for good", now, falls)
	}
	if at := a.Note(); at <= 0 {
		t.Errorf("a commit at %d, want a moment after 0", at)
	}
	if now, falls := a.Load(); now == Idle || falls <= 0 {
		t.Errorf("load %d falls in %s right after a commit", now, falls)
	}
}

func TestActivity_AnOpenedDatabasePausesAtOnceAndThenBecomesIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a Activity
		a.Open()
		if now, falls := a.Load(); now != Pausing || falls < IdleAfter/2 || falls > IdleAfter {
			t.Errorf("load %d falls in %s", now, falls)
		}
		time.Sleep(IdleAfter)
		if now, _ := a.Load(); now != Idle {
			t.Errorf("load %d after %s", now, a.Quiet())
		}
		a.Note()
		if now, _ := a.Load(); now != Busy {
			t.Errorf("load %d after a commit", now)
		}
	})
}
