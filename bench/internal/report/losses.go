package report

import (
	"cmp"
	"fmt"
	"slices"
)

// furthest returns, of each table, the line furthest beyond its target among those that wanted
// accepts. The furthest of all is first.
func furthest(tables []Table, wanted func(Line) bool) []behindLine {
	var all []behindLine
	for _, t := range tables {
		lines := missed([]Table{t})
		if i := slices.IndexFunc(lines, func(l behindLine) bool { return wanted(l.Line) }); i >= 0 {
			all = append(all, lines[i])
		}
	}
	slices.SortStableFunc(all, func(a, b behindLine) int { return cmp.Compare(shortfall(b.Line), shortfall(a.Line)) })
	return all
}

// isBehind returns whether a peer does better in a line.
func isBehind(l Line) bool { return factor(l) > 1 }

// lossesShown is how many losses a summary shows beyond those of targets: the worst row of each
// of the worst reasons.
const lossesShown = 5

// alwaysShown are the rows that a summary shows beyond these if stoat loses them. They have no
// target, or reach it. A program feels them more than the milliseconds of an open.
var alwaysShown = map[metricKey]bool{
	{"cold-seek", "cold_seek_16_per_s"}: true,
	{"churn", "written_per_user_byte"}:  true,
}

// trivialMillis is the time of an open, a first get or a close below which its factor says
// little, in milliseconds. Each happens once in a process.
const trivialMillis = 2

var lossesNote = fmt.Sprintf("Opens, first gets and closes that take less than %d ms in both stores are left out: each happens once in a process.", trivialMillis)

// trivial returns whether a loss costs a process less than trivialMillis, once.
func (l behindLine) trivial() bool {
	return l.Workload == "open" && oursOf(l.Line).ok() && l.Best >= 0 && l.Ours < trivialMillis && l.Theirs < trivialMillis
}

// worstLosses returns the losses of a summary. First comes, of each table, the row furthest
// beyond its target. Then come the worst rows of other reasons, and those always shown.
func worstLosses(tables []Table) []behindLine {
	all := onePerReason(furthest(tables, isBehind))
	var others []behindLine
	for _, l := range behind(tables) {
		if !l.trivial() && !explained(all, l.Reason) {
			others = append(others, l)
		}
	}
	for i, group := range byReason(others) {
		for n, l := range group {
			if n == 0 && i < lossesShown || isAlwaysShown(l) {
				all = append(all, l)
			}
		}
	}
	return all
}

func isAlwaysShown(l behindLine) bool { return alwaysShown[metricKey{l.Workload, l.Metric}] }

// onePerReason keeps the first line of each reason, and all lines without one.
func onePerReason(lines []behindLine) []behindLine {
	var kept []behindLine
	for _, l := range lines {
		if !explained(kept, l.Reason) {
			kept = append(kept, l)
		}
	}
	return kept
}

// explained returns whether one of the lines has this reason.
func explained(lines []behindLine, reason string) bool {
	return reason != "" && slices.ContainsFunc(lines, func(l behindLine) bool { return l.Reason == reason })
}
