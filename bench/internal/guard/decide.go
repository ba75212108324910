package guard

import (
	"math"

	"github.com/stoatdb/stoat/bench/internal/interval"
)

// A Rule says when a row counts as a loss.
type Rule struct {
	// Limit is the tolerated loss as a share of the old cost.
	Limit float64

	// Alpha is the probability that any of the rows is called a loss although
	// none loses more than Limit. With EachRow it is that of each row.
	Alpha   float64
	EachRow bool
}

// DefaultRule tolerates 3 %, and is wrong in one of fifty runs at most.
var DefaultRule = Rule{Limit: 0.03, Alpha: 0.02}

// A Verdict says what the rounds show about a row.
type Verdict string

// The verdicts. Only Loss fails the guard.
const (
	Fine      Verdict = "fine"      // the whole interval is within the limit
	Loss      Verdict = "LOSS"      // the whole interval is above the limit
	Undecided Verdict = "undecided" // the interval includes the limit
	Shown     Verdict = "no limit"  // the row has no limit
)

// A Row has the costs of one figure in both programs, round by round. A lower
// cost is better.
type Row struct {
	Name     string
	Old, New []float64

	// Limit is the tolerated loss of this row; 0 means that of the rule. An
	// infinite limit only shows the row.
	Limit float64
}

// limit returns the tolerated loss of a row.
func (r Rule) limit(row Row) float64 {
	if row.Limit != 0 {
		return row.Limit
	}
	return r.Limit
}

// alpha returns the error of one of n rows.
func (r Rule) alpha(n int) float64 {
	if r.EachRow {
		return r.Alpha
	}
	return r.Alpha / float64(n)
}

// A Judgement is what a rule says about a row. Ratio and Interval are the new
// cost divided by the old one.
type Judgement struct {
	Row      Row
	Ratio    float64
	Interval interval.Interval
	Verdict  Verdict
}

// Decide judges all rows. Both costs of a round were measured one after the
// other and in changing order. So if the programs are equal, the logarithm of
// their ratio is distributed symmetrically around zero, whatever the noise. That
// is all that the interval of Hodges and Lehmann assumes, and a few rounds that
// something disturbed move it little. Without EachRow, Alpha is divided among the
// rows, because one of many rows shows a rare chance often.
func (r Rule) Decide(rows []Row) []Judgement {
	var all []Judgement
	for _, row := range rows {
		limit := math.Log(1 + r.limit(row))
		var logs []float64
		for i := range min(len(row.Old), len(row.New)) {
			if row.Old[i] > 0 && row.New[i] > 0 {
				logs = append(logs, math.Log(row.New[i]/row.Old[i]))
			}
		}
		// Only one end of the interval can call a loss, so both ends together
		// may have twice the error.
		centre, i := interval.Shift(logs, 2*r.alpha(len(rows)))
		j := Judgement{Row: row, Ratio: math.Exp(centre), Verdict: Undecided}
		j.Interval = interval.Interval{Low: math.Exp(i.Low), High: math.Exp(i.High)}
		switch {
		case math.IsInf(limit, 1):
			j.Verdict = Shown
		case i.Low > limit:
			j.Verdict = Loss
		case i.High <= limit:
			j.Verdict = Fine
		}
		all = append(all, j)
	}
	return all
}

// Open returns whether a row needs more rounds. Then its estimate is beyond the limit, or
// closer to the limit than to equality, and the row is not Fine.
func (r Rule) Open(j Judgement) bool {
	return j.Verdict != Fine && j.Verdict != Shown && !(j.Ratio <= math.Sqrt(1+r.limit(j.Row)))
}

// Losses returns the rows that are a loss. It is asked once, after the last
// round: asked after every round, it would find chance losses more often than
// Alpha says.
func Losses(all []Judgement) []Judgement {
	var losses []Judgement
	for _, j := range all {
		if j.Verdict == Loss {
			losses = append(losses, j)
		}
	}
	return losses
}
