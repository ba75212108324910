package jobs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/testing/script"
	"github.com/stoatdb/stoat/internal/work"
)

// handle returns a handler of the commands of one file.
func handle(commands map[string]script.Handler) func(*testing.T) script.Handler {
	return func(*testing.T) script.Handler {
		return func(t *testing.T, c *script.Command) string {
			run := commands[c.Name]
			if run == nil {
				c.Unknown(t)
			}
			return run(t, c)
		}
	}
}

func mustDuration(t *testing.T, c *script.Command, name string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(c.String(name, "0s"))
	if err != nil {
		t.Fatal(c.Pos, err)
	}
	return d
}

// TestIdle_Scripts runs the cases in testdata/idle. The first word is the load.
func TestIdle_Scripts(t *testing.T) {
	t.Parallel()
	loads := map[string]work.Load{"busy": work.Busy, "pausing": work.Pausing, "idle": work.Idle}
	script.Run(t, "testdata/idle", handle(map[string]script.Handler{"idle": func(_ *testing.T, c *script.Command) string {
		d := decideIdle(idleInputs{load: loads[c.Args[0]], scarce: c.Has("scarce"), log: c.Has("log"),
			empty: c.Has("empty"), deletions: c.Has("deletions"), trickle: c.Has("trickle"), large: c.Has("large"),
			manyRuns: c.Has("many-runs"), mergesRest: c.Has("merges-rest")})
		var out []string
		for _, is := range []struct {
			name string
			true bool
		}{{"wait", d.wait}, {"rest", d.rest}, {"trim", d.trim}, {"flush", d.flush}, {"shrink", d.flush && d.shrink}} {
			if is.true {
				out = append(out, is.name)
			}
		}
		return strings.Join(out, " ")
	}}))
}

func TestLeaving_OnlyWhatTheManifestStillNames(t *testing.T) {
	t.Parallel()
	old, now := base.SegmentRef{File: 1, Number: 1}, base.SegmentRef{File: 2, Number: 2}
	for _, c := range []struct {
		name  string
		first base.SegmentRef
		spans []base.LogSpan
		freed bool
		want  bool
	}{
		{"older segments are named", now, []base.LogSpan{{First: old}}, false, true},
		{"another log before it is named", now, []base.LogSpan{{First: old}, {First: now}}, false, true},
		{"no log is named", now, nil, false, true},
		{"the log begins there already", now, []base.LogSpan{{First: now}}, false, false},
		{"the log begins there already, and value files are free", now, []base.LogSpan{{First: now}}, true, true},
		{"the file is the same and its use another", base.SegmentRef{File: 1, Number: 3}, []base.LogSpan{{First: old}}, false, true},
		{"memory holds what recovery found", base.SegmentRef{}, []base.LogSpan{{First: old}}, false, false},
	} {
		keep := func(first base.SegmentRef) ([]base.LogSpan, bool) {
			return []base.LogSpan{{First: first}}, c.freed
		}
		if _, got := decideLeaving(c.first, c.spans, keep); got != c.want {
			t.Errorf("%s: leaves the log: %t", c.name, got)
		}
	}
}

// TestNextLook_Scripts runs the cases in testdata/next.
func TestNextLook_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/next", handle(map[string]script.Handler{
		"look": func(t *testing.T, c *script.Command) string {
			again := nextLook(lookInputs{tables: c.Has("tables"), aging: c.Has("aging"), lacking: c.Has("lacking"),
				falls: mustDuration(t, c, "falls")})
			if again == 0 {
				return "never"
			}
			return again.String()
		},
		"retry": func(t *testing.T, c *script.Command) string {
			var out []string
			var r idleRetry
			for i := range c.Int(t, "n", 1) {
				if c.Has("reset") && i > 0 {
					r = 0
				}
				out = append(out, r.next().String())
			}
			return strings.Join(out, " ")
		},
	}))
}

// TestTrickle_Scripts runs the cases in testdata/trickle.
func TestTrickle_Scripts(t *testing.T) {
	t.Parallel()
	var k trickle
	tables := map[string]*memtable.Table{"a": new(memtable.Table), "b": new(memtable.Table)}
	script.Run(t, "testdata/trickle", handle(map[string]script.Handler{"passed": func(t *testing.T, c *script.Command) string {
		bytes, known := k.passed(tables[c.String("table", "")], c.Int(t, "committed", 0), int64(mustDuration(t, c, "at")))
		if !known {
			return "unknown"
		}
		return fmt.Sprintf("%d bytes", bytes)
	}}))
}

// TestGatherRoom_Scripts runs the cases in testdata/gather.
func TestGatherRoom_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/gather", handle(map[string]script.Handler{"room": func(t *testing.T, c *script.Command) string {
		now, later := gatherRoom(gatherInputs{live: uint64(c.Int(t, "live", 0)), garbage: uint64(c.Int(t, "garbage", 0)),
			obsolete: c.Int(t, "obsolete", 0), least: c.Int(t, "least", 0), spare: c.Int(t, "spare", 0), scarce: c.Has("scarce"),
			whole: uint64(c.Int(t, "whole", 0))})
		return fmt.Sprintf("now %d, later %d", now, later)
	}}))
}

// TestEdit_Scripts runs the cases in testdata/edit. A line is an input of the plan:
// its level and its number. made are the tables that a merge has written.
func TestEdit_Scripts(t *testing.T) {
	t.Parallel()
	script.Run(t, "testdata/edit", handle(map[string]script.Handler{"edit": func(t *testing.T, c *script.Command) string {
		plan := compact.Plan{Drop: c.Has("drop"), Move: c.Has("move"), OutputLevel: int(c.Int(t, "to", 0))}
		for _, line := range c.Lines() {
			var level int
			table := new(manifest.Table)
			if _, err := fmt.Sscan(line, &level, &table.Num); err != nil {
				t.Fatal(c.Pos, err)
			}
			table.Level = level
			plan.Inputs[level] = append(plan.Inputs[level], table)
		}
		out := output{values: place.NewWriter(new(place.Options))}
		for _, n := range numbers(t, c, "made") {
			out.result.Tables = append(out.result.Tables, &manifest.Table{Num: n})
		}
		edit := editOf(&plan, out)
		var text strings.Builder
		for _, drop := range edit.DropTables {
			fmt.Fprintf(&text, "drop %d from level %d\n", drop.Num, drop.Level)
		}
		for _, add := range edit.AddTables {
			fmt.Fprintf(&text, "add %d to level %d\n", add.Num, add.Level)
		}
		return text.String()
	}}))
}

func numbers(t *testing.T, c *script.Command, name string) (all []base.FileNum) {
	t.Helper()
	for word := range strings.SplitSeq(c.String(name, ""), ",") {
		if word == "" {
			continue
		}
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			t.Fatal(c.Pos, err)
		}
		all = append(all, base.FileNum(n))
	}
	return all
}

func TestHalve_TheHalvesMeet(t *testing.T) {
	t.Parallel()
	small, large := tableOf(t, "x", "y"), tableOf(t, "a", "b", "c", "d", "e", "f", "g", "h")
	both := []*memtable.Table{small, large}
	for _, c := range []struct {
		name     string
		tables   []*memtable.Table
		splitMin int64
		splits   string // of the flush, one byte each
		at       string // where it is cut; "" is nowhere
	}{
		{"by the middle of the largest", both, 10, "", "e"},
		{"at the next split", both, 10, "bgy", "g"},
		{"at the last split", both, 10, "bc", "c"},
		{"just large enough", both, 20, "", "e"},
		{"too small", both, 21, "", ""},
		{"not allowed", both, -1, "", ""},
		{"empty", []*memtable.Table{tableOf(t)}, 0, "", ""},
	} {
		var cuts compact.FlushCuts
		for _, key := range c.splits {
			cuts.Splits = append(cuts.Splits, []byte(string(key)))
		}
		jobs, err := halve(compact.Job{Run: 7}, c.tables, cuts, c.splitMin)
		if err != nil {
			t.Fatal(c.name, err)
		}
		at := ""
		if len(jobs) == 2 {
			at = string(jobs[0].To)
			if string(jobs[1].From) != at || jobs[0].From != nil || jobs[1].To != nil {
				t.Errorf("%s: from %q to %q, and from %q to %q", c.name, jobs[0].From, jobs[0].To, jobs[1].From, jobs[1].To)
			}
		}
		if (len(jobs) == 2) != (c.at != "") || at != c.at || jobs[0].Run != 7 || jobs[len(jobs)-1].Run != 7 {
			t.Errorf("%s: %d jobs, cut at %q, want %q", c.name, len(jobs), at, c.at)
		}
	}
}

// tableOf returns a memtable with keys of one byte and values of one.
func tableOf(t *testing.T, keys ...string) *memtable.Table {
	t.Helper()
	table := memtable.New(memtable.Options{Memory: memtable.Heap()})
	for i, key := range keys {
		if err := table.Set([]byte(key), []byte("v"), base.Hash([]byte(key), 0), base.Meta{Kind: base.KindSet}, base.SeqNum(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func TestTablesAge_TombstonesAndExpiry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		table         *manifest.Table
		tables, aging bool
	}{
		{nil, false, false},
		{&manifest.Table{}, true, false},
		{&manifest.Table{Expiring: 1}, true, true},
		{&manifest.Table{Deletions: 1}, true, true},
		{&manifest.Table{RangeDeletions: 1}, true, true},
	} {
		v := new(manifest.Version)
		if c.table != nil {
			v.Levels[2] = []*manifest.Table{c.table}
		}
		if tables, aging := tablesAge(v); tables != c.tables || aging != c.aging {
			t.Errorf("%+v: tables %t, aging %t", c.table, tables, aging)
		}
	}
}

func TestDecideEase_AMemtableThatIsWorthItOrGetsNoMore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		active, spare int64
		waiting       int
		load          work.Load
		takes         bool
	}{
		{active: 99, spare: 500, waiting: 1, load: work.Busy},
		{active: 99, spare: 500, waiting: 1, load: work.Pausing},
		{active: 1, spare: -1, waiting: easeTablesMax - 1, load: work.Idle, takes: true},
		{active: 100, spare: 500, waiting: easeTablesMax, load: work.Idle},
		{active: 100, spare: 100, waiting: easeTablesMax, load: work.Busy, takes: true},
		{active: 100, spare: 99, waiting: 1, load: work.Busy},
	} {
		in := easeInputs{fill: state.Fill{ActiveBytes: c.active, Waiting: c.waiting}, least: 100, spare: c.spare, load: c.load}
		if takes := decideEase(in); takes != c.takes {
			t.Errorf("%+v: %t", in, takes)
		}
	}
}
