package throttle

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/testing/script"
)

// TestPace_Scripts runs the cases in testdata/pace. waiting and bytes are of the
// memtables that wait, active is the size of the one that takes the writes.
func TestPace_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/pace", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			number := func(name string) int64 { return c.Int(t, name, 0) }
			fill := state.Fill{Waiting: int(number("waiting")), WaitingBytes: number("bytes"), ActiveBytes: number("active")}
			switch c.Name {
			case "pace":
				return fmt.Sprintf("%d ns a KiB", paceOf(fill, number("max"), number("ns"), number("flush")))
			case "full":
				return fmt.Sprintf("full: %t", fullOf(fill, number("max"), number("write")))
			}
			c.Unknown(t)
			return ""
		}
	})
}

// TestDebt_Scripts runs the cases in testdata/debt. free is how many nanoseconds
// collection takes to free a KiB, 0 if that was not measured.
func TestDebt_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/debt", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "debt" {
				c.Unknown(t)
			}
			number := func(name string) int64 { return c.Int(t, name, 0) }
			use := Use{Garbage: uint64(number("garbage")), Newest: uint64(number("newest")),
				Pending: uint64(number("pending")), All: uint64(number("all"))}
			p := paceFor(number("behind"), use, mustPart(t, c.String("replacing", "0")),
				mustPart(t, c.String("slack", "1")), number("free"), number("memtable"))
			out := fmt.Sprintf("%d ns a KiB, memtables of %d", p.nsPerKiB, p.tableMax)
			if p.collecting {
				out += ", for the sake of collection"
			}
			return out
		}
	})
}

// TestEstimate_Scripts runs the cases in testdata/learn.
func TestEstimate_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/learn", func(*testing.T) script.Handler {
		var e estimate
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "learn" {
				c.Unknown(t)
			}
			e.learn(mustPart(t, c.Args[0]))
			return fmt.Sprintf("%.3f", e.get())
		}
	})
}

func mustPart(t *testing.T, s string) float64 {
	t.Helper()
	part, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return part
}

// When nothing live is left that could be replaced, the estimate begins anew.
func TestEstimate_EndsWithTheLiveValues(t *testing.T) {
	t.Parallel()
	th := New(Options{MemtableSize: 1 << 20})
	th.LearnReplacing(0.5)
	th.SetDebt(0, Use{Garbage: 60, Pending: 39, All: 100})
	if got := th.Replacing(); got != 0.5 {
		t.Errorf("replacing %v while a value is live, want 0.5", got)
	}
	th.SetDebt(0, Use{Garbage: 60, Pending: 40, All: 100})
	if got := th.Replacing(); got != 0 {
		t.Errorf("replacing %v, want 0", got)
	}
}

// The debt that Open finds is told, and slows no commit down. A delay that jobs have
// made up for is not paid any more.
func TestDebt_IsForgivenWhenItIsGone(t *testing.T) {
	t.Parallel()
	th := New(Options{MemtableSize: 1 << 20, Fill: func() state.Fill { return state.Fill{} }})
	th.NoteDebt(debtUnit)
	if th.Charge(1 << 20); th.Debt() != debtUnit || th.owed() > 0 {
		t.Errorf("after Open: debt %d, %s owed", th.Debt(), th.owed())
	}
	th.SetDebt(1000*debtUnit, Use{All: 1})
	if th.Charge(1 << 20); th.owed() < time.Second {
		t.Errorf("%s owed with a debt", th.owed())
	}
	th.SetDebt(0, Use{All: 1})
	if th.owed() > 0 {
		t.Errorf("%s owed without a debt", th.owed())
	}
}
