package report

import "fmt"

// lossesShown is how many losses a summary shows: the worst row of each of the worst reasons.
const lossesShown = 5

// alwaysShown are the rows that a summary shows beyond these if stoat loses them. Their factors
// are smaller, and a program feels them more than the milliseconds of an open.
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

// worstLosses returns the worst line of each reason, and the lines that are always shown, the
// worst first.
func worstLosses(lines []behindLine) []behindLine {
	var counted []behindLine
	for _, l := range lines {
		if !l.trivial() {
			counted = append(counted, l)
		}
	}
	var worst []behindLine
	for i, group := range byReason(counted) {
		for n, l := range group {
			if n == 0 && i < lossesShown || alwaysShown[metricKey{l.Workload, l.Metric}] {
				worst = append(worst, l)
			}
		}
	}
	return worst
}
