package throttle

import "testing"

// A stage of a test writes values in steps. A part of them replaces others, and a part ends
// others otherwise. What replaces others is garbage at once; compaction finds the other
// garbage every few steps.
type stage struct {
	name            string
	steps           int
	written         int64 // bytes in each step
	replaces, other float64
	least, most     float64 // the slack in each step
}

// run applies the stage to a throttle whose database has live bytes, and returns how many it
// has afterwards.
func (s stage) run(t *testing.T, x *Throttle, live int64) int64 {
	t.Helper()
	hidden := int64(0)
	for i := range s.steps {
		x.LearnReplacing(s.replaces)
		x.Wrote(s.written)
		live += s.written - int64(s.replaces*float64(s.written))
		if hidden += int64(s.other * float64(s.written)); i%4 == 3 {
			live, hidden = live-hidden, 0
		}
		x.SetDebt(0, Use{All: uint64(live)})
		if got := x.Slack(); got < s.least || got > s.most {
			t.Errorf("%s, step %d: a slack of %.2f, want %.2f to %.2f", s.name, i, got, s.least, s.most)
		}
	}
	return live - hidden
}

func TestSlack_FollowsTheGrowthOfTheDatabase(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	load := stage{name: "load", steps: 60, written: 16 * mb, replaces: 0.6, least: slackMax, most: slackMax}
	for _, c := range []struct {
		name   string
		live   int64 // bytes when the database was opened
		stages []stage
	}{
		{"new keys", 0, []stage{{name: "new", steps: 50, written: 16 * mb, least: slackMax, most: slackMax}}},
		{"values are replaced after a load", 0, []stage{
			load,
			{name: "replaced", steps: 50, written: 16 * mb, replaces: 1, least: 1, most: 1},
		}},
		{"most values are replaced after a load", 0, []stage{
			load,
			{name: "replaced", steps: 5, written: 16 * mb, replaces: 0.9, least: 1.4, most: 1.6},
		}},
		// Each value that comes ends another one, by its age or by a deletion.
		{"values expire after a load", 0, []stage{
			load,
			{name: "not yet known", steps: 50, written: 16 * mb, other: 1, least: 1, most: slackMax},
			{name: "expired", steps: 50, written: 16 * mb, other: 1, least: 1, most: 1},
		}},
		{"a database that was opened must get as much as it has first", 1000 * mb, []stage{
			{name: "before", steps: 100, written: 16 * mb, replaces: 0.5, least: 1, most: 1},
			{name: "about as much", steps: 30, written: 16 * mb, replaces: 0.5, least: 1, most: slackMax},
			{name: "after", steps: 10, written: 16 * mb, replaces: 0.5, least: slackMax, most: slackMax},
		}},
		{"values expire in a database that was opened", 1000 * mb, []stage{
			{name: "expired", steps: 200, written: 16 * mb, other: 1, least: 1, most: 1},
		}},
		{"no values", 0, []stage{{name: "none", steps: 3, least: 1, most: 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := New(Options{MemtableSize: 64 * mb})
			if got := x.Slack(); got != 1 {
				t.Errorf("a slack of %.2f before the first edit, want 1", got)
			}
			live := c.live
			for _, s := range c.stages {
				live = s.run(t, x, live)
			}
		})
	}
}
