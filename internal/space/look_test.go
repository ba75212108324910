package space

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/testing/script"
)

// TestLook_Scripts runs the cases in testdata/look. shortmerge, shortcopy and
// shortflush are how much was free when such a job failed, at the moment 0.
func TestLook_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/look", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "look" {
				c.Unknown(t)
			}
			number := func(name string) int64 { return c.Int(t, name, 0) }
			now, err := time.ParseDuration(c.String("now", "0s"))
			if err != nil {
				t.Fatal(c.Pos, err)
			}
			m := measures{free: number("free"), flushReserve: number("first"), promised: number("promised"),
				jobs: Need{Merge: number("merge"), Copy: number("copy")}, now: int64(now)}
			before := lastLook{flush: number("shortflush")}
			if free := number("shortmerge"); free > 0 {
				before.merge = &shortage{free: free}
			}
			if free := number("shortcopy"); free > 0 {
				before.copy = &shortage{free: free}
			}
			found := look(m, before)
			out := fmt.Sprintf("reserve %d, room %d", found.reserve, found.room)
			for _, is := range []struct {
				name string
				true bool
			}{{"low", found.low}, {"retry the merge", found.retryMerge}, {"retry the copy", found.retryCopy}, {"retry the flush", found.retryFlush}} {
				if is.true {
					out += ", " + is.name
				}
			}
			return out
		}
	})
}

// TestBounds_Scripts runs the cases in testdata/bounds.
func TestBounds_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/bounds", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			number := func(name string) int64 { return c.Int(t, name, 0) }
			switch c.Name {
			case "need":
				return fmt.Sprint(MergeNeed(number("next"), number("all"), number("table")))
			case "more":
				return fmt.Sprint(MuchMore(number("free"), number("before")))
			case "merge":
				r := New(Options{TableSize: number("table")})
				r.free.Store(number("free"))
				r.flushReserve.Store(number("first"))
				if short := number("short"); short > 0 {
					r.shortMerge.Store(&shortage{bytes: short})
				}
				input, output := r.Merge()
				return fmt.Sprintf("takes %d, writes %d", input, output)
			}
			c.Unknown(t)
			return ""
		}
	})
}

func TestShortage_Over(t *testing.T) {
	t.Parallel()
	s := shortage{bytes: 100, free: 8000, at: int64(time.Minute)}
	var got []string
	for _, at := range []struct {
		free int64
		now  time.Duration
	}{{8000, time.Minute}, {8999, time.Minute}, {9000, time.Minute}, {0, time.Hour}, {0, time.Hour + time.Minute}} {
		got = append(got, fmt.Sprint(s.retryable(at.free, int64(at.now))))
	}
	if got, want := strings.Join(got, " "), "false false true false true"; got != want {
		t.Errorf("over: %s, want %s", got, want)
	}
}
