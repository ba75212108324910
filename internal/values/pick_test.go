package values

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/script"
)

// The cases are in testdata/pick. A line is a file: its number, bytes, live bytes, and
// optionally "held".
func TestPick_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/pick", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "pick" {
				c.Unknown(t)
			}
			slack, err := strconv.ParseFloat(c.String("slack", "1"), 64)
			if err != nil {
				t.Fatalf("%s: %v", c.Pos, err)
			}
			var files []FileState
			for _, line := range c.Lines() {
				var f FileState
				var rest string
				if n, err := fmt.Sscan(line, &f.Num, &f.Bytes, &f.Live, &rest); n < 3 {
					t.Fatalf("%s: %q: %v", c.Pos, line, err)
				}
				f.Held = rest == "held"
				files = append(files, f)
			}
			var out strings.Builder
			for pressure, name := range []string{"idle", "busy", "strained"} {
				fmt.Fprintf(&out, "%s: %s\n", name, describeChoice(firstChoice(files, Pressure(pressure), slack)))
			}
			return out.String()
		}
	})
}

func describeChoice(c Choice, ok bool) string {
	switch {
	case !ok:
		return "nothing"
	case c.Drop:
		return fmt.Sprintf("drop %d, free %d", c.Num, c.Free)
	}
	return fmt.Sprintf("rewrite %d, copy %d, free %d", c.Num, c.Copy, c.Free)
}

// firstChoice returns the first file to collect, or false if there is none.
func firstChoice(files []FileState, pressure Pressure, slack float64) (first Choice, due bool) {
	for first = range PickCollection(slices.Clone(files), pressure, slack) {
		return first, true
	}
	return first, false
}

// The test applies choices until there is none. Each choice must equal a new choice after
// the previous one. In the end the garbage is below the bound, and the copying paid off.
func TestPick_CollectionEnds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 6))
		var files []FileState
		for i := range 1 + rng.IntN(50) {
			bytes := rng.Uint64N(128 << 20)
			live := rng.Uint64N(bytes + 1)
			if rng.IntN(4) == 0 {
				live = 0
			}
			files = append(files, FileState{Num: base.FileNum(i), Bytes: bytes, Live: live, Held: rng.IntN(8) == 0})
		}
		pressure, slack := Pressure(rng.IntN(3)), 1+2*rng.Float64()
		for c := range PickCollection(slices.Clone(files), pressure, slack) {
			if first, due := firstChoice(files, pressure, slack); !due || c != first {
				t.Fatalf("seed %d: %+v, and %+v if it is asked anew", seed, c, first)
			}
			if !c.Drop && float64(c.Free) < float64(c.Copy+c.Free)*garbageFrom(pressure, slack)*0.999 {
				t.Fatalf("seed %d: %+v does not pay", seed, c)
			}
			i := slices.IndexFunc(files, func(f FileState) bool { return f.Num == c.Num })
			if c.Drop {
				files = slices.Delete(files, i, i+1)
			} else {
				files[i].Bytes = files[i].Live
			}
		}
		if c, due := firstChoice(files, pressure, slack); due {
			t.Fatalf("seed %d: still %+v", seed, c)
		}
	}
}

// BenchmarkPickCollection chooses among as many files as may be mapped. Every other one
// is dead.
func BenchmarkPickCollection(b *testing.B) {
	files := make([]FileState, 65000)
	for b.Loop() {
		for i := range files {
			files[i] = FileState{Num: base.FileNum(i), Bytes: 16 << 20, Live: uint64(i%2) * uint64(i%1000) << 10}
		}
		n := 0
		for range PickCollection(files, Idle, 1) {
			n++
		}
		if n < len(files)/2 {
			b.Fatalf("%d of %d files were chosen", n, len(files))
		}
	}
}
