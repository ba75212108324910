package compact

import (
	"testing"

	"github.com/stoatdb/stoat/internal/manifest"
)

// Level 0 refers to 100 MiB of values that may replace others.
func TestPick_ValuesThatMayReplaceOthersAreMergedSoonerWhileTheDatabaseDoesNotGrow(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		name      string
		all       uint64 // bytes of all values
		replacing float64
		slack     float64
		always    int64 // bytes of values that level 0 may always refer to
		due       bool
	}{
		{name: "more than a sixteenth", always: mib, all: 1500 * mib, due: true},
		{name: "less than a sixteenth", always: mib, all: 1700 * mib},
		{name: "more than 2.5 sixteenths", always: mib, all: 600 * mib, slack: 2.5, due: true},
		{name: "less than 2.5 sixteenths", always: mib, all: 700 * mib, slack: 2.5},
		{name: "half replaces others", always: 128 * mib, all: 750 * mib, replacing: 0.5, due: true},
		{name: "half replaces others, and the database grows", always: 128 * mib, all: 750 * mib, replacing: 0.5, slack: 2.5},
		{name: "few values", always: 128 * mib, all: 100 * mib},
		{name: "few values, all replace others", always: 128 * mib, all: 200 * mib, replacing: 1, slack: 1, due: true},
	} {
		v := shaped(
			&manifest.Table{Level: 0, Run: 1, Smallest: []byte("a"), Largest: []byte("z"), Size: mib,
				Values: manifest.ValueRefsOf(manifest.ValueRef{File: 9, Bytes: 100 * mib})},
			&manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: 8 * mib})
		v.Values = []manifest.LiveValues{{ValueFile: &manifest.ValueFile{Num: 9, Bytes: c.all}, Live: c.all}}
		v.ValueFileBytes = c.all
		s := Shape{ValuesMin: c.always, Replacing: c.replacing, Slack: c.slack}
		if p, due := Pick(v, s); due != c.due || due && p.Reason != ReasonValues {
			t.Errorf("%s: picked %s, want that something is due: %t", c.name, p.String(), c.due)
		}
	}
}
