package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
)

// sharedMark marks a comparison that leaves out the repeats of one store only.
const sharedMark = "‡"

const sharedNote = sharedMark + " stoat or the best peer has further repeats, at other times or beside other stores. " +
	"Ratios, and the figures beside a best peer, are of the repeats in which both ran on one machine, soon after each other. Without any, they are of all that both have."

// apartMark marks a row that compares figures which never ran soon after each other.
const apartMark = "‖"

var apartNote = fmt.Sprintf("%s the two figures are of different machines or revisions, or began more than %.0f hours apart. "+
	"Their ratio has no interval and decides no target.", apartMark, soon.Hours())

// missingMark marks a row without the figures of some peers, which could be the best.
const missingMark = "§"

// fewMark marks a row in which fewer repeats than a target needs are behind the ratio or the
// figure of stoat, in a record that otherwise has enough.
const fewMark = "¶"

var fewNote = fmt.Sprintf("%s fewer than %d repeats are behind the ratio to the peer, or behind the figure that the target limits. "+
	"A figure of so few decides no target. Of two, it is the geometric mean.", fewMark, interval.SamplesMin)

// perhapsNote explains a standing that is not sure.
var perhapsNote = fmt.Sprintf("Perhaps: the interval of the ratio includes equality, or there is none, because fewer than %d pairs of repeats ran soon after each other.",
	interval.SamplesMin)

// label writes the label of the row with its marks.
func (l Line) label() string {
	text := l.Row.label()
	if l.Shared {
		text += " " + sharedMark
	}
	if l.Missing != nil {
		text += " " + missingMark
	}
	if l.Apart {
		text += " " + apartMark
	}
	if l.Few {
		text += " " + fewMark
	}
	return text
}

// markNotes explains the marks that the rows of the tables have.
func markNotes(rec *comparison.Record, tables []Table) []string {
	var notes []string
	has := func(marked func(Line) bool) bool {
		return slices.ContainsFunc(tables, func(t Table) bool { return slices.ContainsFunc(t.Lines, marked) })
	}
	if has(func(l Line) bool { return l.ReadAhead }) {
		notes = append(notes, readAheadNote(rec))
	}
	if has(func(l Line) bool { return l.Shared }) {
		notes = append(notes, sharedNote)
	}
	if has(func(l Line) bool { return l.Missing != nil }) {
		notes = append(notes, missingNote(tables))
	}
	if has(func(l Line) bool { return l.Apart }) {
		notes = append(notes, apartNote)
	}
	if has(func(l Line) bool { return l.Few }) {
		notes = append(notes, fewNote)
	}
	return notes
}

// missingNote names the peers that were not measured, and in how many rows of a section.
func missingNote(tables []Table) string {
	text := missingMark + " Some peers were not measured in this row, for lack of time, space or a library. One of them may be better than the best peer shown."
	rowsOf, order := map[string][]string{}, []string{}
	for _, t := range tables {
		for _, l := range t.Lines {
			if l.Missing == nil {
				continue
			}
			lacks := t.Title + ": " + l.missingText()
			if rowsOf[lacks] == nil {
				order = append(order, lacks)
			}
			rowsOf[lacks] = append(rowsOf[lacks], l.Label)
		}
	}
	for _, lacks := range order {
		rows := rowsOf[lacks]
		where := fmt.Sprintf("in %d rows", len(rows))
		if len(rows) == 1 {
			where = "in the row of " + rows[0]
		}
		text += fmt.Sprintf(" %s (%s).", lacks, where)
	}
	return text
}

// missingText names the peers that were not measured.
func (l Line) missingText() string {
	if l.Best < 0 && !slices.ContainsFunc(l.Cells, func(c Cell) bool { return !isOurs(c.Store) && c.failed() }) {
		return "all peers"
	}
	return strings.Join(l.Missing, ", ")
}

// markdownMarks writes the notes of markNotes.
func markdownMarks(w io.Writer, rec *comparison.Record, tables []Table) {
	for _, note := range markNotes(rec, tables) {
		fmt.Fprintf(w, "%s\n\n", note)
	}
}
