package values

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/script"
)

// TestPickScripts runs the cases in testdata/pick. A line is a file: its
// number, bytes, live bytes, and perhaps "held".
func TestPickScripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/pick", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "pick" {
				c.Unknown(t)
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
				fmt.Fprintf(&out, "%s: %s\n", name, describeChoice(PickCollection(files, Pressure(pressure))))
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

// TestCollectionComesToAnEnd applies choices until there is none: the garbage
// is then below the bound, and what was copied was worth it.
func TestCollectionComesToAnEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 6))
		var files []FileState
		for i := range 1 + rng.IntN(50) {
			bytes := rng.Uint64N(128 << 20)
			files = append(files, FileState{Num: base.FileNum(i), Bytes: bytes, Live: rng.Uint64N(bytes + 1)})
		}
		pressure := Pressure(rng.IntN(3))
		for range 2 * len(files) {
			c, ok := PickCollection(files, pressure)
			if !ok {
				break
			}
			if !c.Drop && c.Free*100 < (c.Copy+c.Free)*garbageMin[pressure] {
				t.Fatalf("%+v does not pay", c)
			}
			for i := range files {
				if files[i].Num == c.Num && c.Drop {
					files = append(files[:i], files[i+1:]...)
					break
				} else if files[i].Num == c.Num {
					files[i].Bytes = files[i].Live
				}
			}
		}
		if c, ok := PickCollection(files, pressure); ok {
			t.Fatalf("seed %d: still %+v", seed, c)
		}
	}
}
