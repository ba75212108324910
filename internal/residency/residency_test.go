package residency

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/script"
)

// TestChoose_Scripts runs the cases in testdata/choose. A line is a file: its
// name, kind, bytes, and the number of rounds without a use.
func TestChoose_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/choose", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "choose" {
				c.Unknown(t)
			}
			limit := Limit{Bytes: c.Int(t, "limit", 0), IdleMin: 10, Strict: c.Has("strict")}
			var files []File
			var names []string
			for _, line := range c.Lines() {
				var f File
				var name, kind string
				if n, err := fmt.Sscan(line, &name, &kind, &f.Bytes, &f.IdleRounds); n < 4 {
					t.Fatalf("%s: %q: %v", c.Pos, line, err)
				}
				if kind == "table" {
					f.Kind = Tables
				}
				files, names = append(files, f), append(names, name)
			}
			var chosen []string
			for _, i := range Choose(files, limit) {
				chosen = append(chosen, names[i])
			}
			return strings.Join(chosen, " ")
		}
	})
}

func TestGauge_WakesOnceARound(t *testing.T) {
	t.Parallel()
	var g Gauge
	woken := 0
	g.Init(func() { woken++ })
	g.Touch()
	g.Touch()
	if rest := g.NextRound(); woken != 1 || rest != 0 {
		t.Fatalf("woken %d times, %d rounds of rest after two uses, want 1 and 0", woken, rest)
	}
	for want := range int32(3) {
		if rest := g.NextRound(); rest != want+1 {
			t.Fatalf("%d rounds of rest, want %d", rest, want+1)
		}
	}
	g.Touch()
	if rest := g.NextRound(); woken != 2 || rest != 0 {
		t.Fatalf("woken %d times, %d rounds of rest after a use, want 2 and 0", woken, rest)
	}
}

func TestGauge_CountsUntilItIsCleared(t *testing.T) {
	t.Parallel()
	var g Gauge
	g.Add(3, 8)
	g.Add(4, 8)
	if g.Bytes() != 7 {
		t.Fatalf("%d bytes, want 7", g.Bytes())
	}
	if g.Clear(); g.Bytes() != 0 {
		t.Fatalf("%d bytes after Clear", g.Bytes())
	}
}

func BenchmarkTouch(b *testing.B) {
	var g Gauge
	for b.Loop() {
		g.Touch()
	}
}
