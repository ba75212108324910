package commit

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/testing/script"
)

// TestChecks_Scripts runs the cases in testdata/checks. bytes is the size of the one
// key and its value, large how many of them are of large values.
func TestChecks_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/checks", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "checks" {
				c.Unknown(t)
			}
			r := SyncRequest()
			if !c.Has("sync") {
				w := writesOf(t, int(c.Int(t, "bytes", 1)))
				w.Adds, w.Large = c.Has("adds"), c.Int(t, "large", 0)
				w.Streams = make([]*place.Stream, c.Int(t, "streams", 0))
				if c.Has("reads") {
					w.Reads.AddKey([]byte("k"), 1)
				}
				r = w.Request(1, false)
			}
			n := checksOf(r, c.Int(t, "min", 1<<20))
			var out []string
			if n.adds {
				out = append(out, fmt.Sprintf("admit %d bytes", n.admit))
			}
			if n.yields {
				out = append(out, "yield")
			}
			if n.validates {
				out = append(out, "validate")
			}
			if n.apart {
				out = append(out, "write value files")
			}
			return strings.Join(out, ", ")
		}
	})
}

// writesOf returns a write set with one entry of so many bytes.
func writesOf(t *testing.T, bytes int) *WriteSet {
	t.Helper()
	w := &WriteSet{Pending: memtable.New(memtable.Options{Memory: memtable.Heap()})}
	if err := w.Pending.Set([]byte("k"), make([]byte, bytes-1), 1, base.Meta{Kind: base.KindSet}, 0); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestHeldFull_Scripts runs the cases in testdata/held.
func TestHeldFull_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/held", func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			if c.Name != "full" {
				c.Unknown(t)
			}
			replacing, err := strconv.ParseFloat(c.String("replacing", ""), 64)
			if err != nil {
				t.Fatal(c.Pos, err)
			}
			return fmt.Sprint(heldFullOf(c.Int(t, "held", 0), c.Int(t, "memtable", 0), replacing,
				uint64(c.Int(t, "all", 0))))
		}
	})
}

func TestHeld_UntilTheCommitIsInTables(t *testing.T) {
	t.Parallel()
	var h Held
	file := &manifest.ValueFile{Num: 7, File: 9}
	holds := func(want bool, flushed base.SeqNum, when string) {
		t.Helper()
		if got := h.Holds(file, flushed); got != want {
			t.Errorf("%s, all up to %d flushed: held %t, want %t", when, flushed, got, want)
		}
	}
	holds(false, 100, "before")
	h.hold(7, 0)
	holds(true, 100, "a commit is under way")
	h.hold(7, 50)
	holds(true, 49, "after the commit")
	holds(false, 50, "after the commit")
	h.hold(7, 0)
	holds(true, 49, "held again")
	holds(false, 50, "held again")
	h.Forget(7)
	holds(false, 0, "forgotten")
	file.LastSeq = 30
	holds(true, 29, "of a flush")
	holds(false, 30, "of a flush")
}

func TestApartMin_AQuarterOfASmallMemtable(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int64{1 << 20: 256 << 10, 8 << 20: 2 << 20, 64 << 20: 2 << 20} {
		if got := ApartMin(size); got != want {
			t.Errorf("memtables of %d: %d, want %d", size, got, want)
		}
	}
}
