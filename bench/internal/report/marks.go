package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// sharedMark marks a comparison that leaves out the repeats of one store only.
const sharedMark = "‡"

const sharedNote = sharedMark + " stoat or the best peer has further repeats, often because the peer was far behind in other rows. " +
	"Ratios, and the figures beside a best peer, are of the repeats that both have."

// label writes the label of the row with its marks.
func (l Line) label() string {
	text := l.Row.label()
	if l.Shared {
		text += " " + sharedMark
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
		notes = append(notes, readAheadNote(rec.Settings.Machine))
	}
	if has(func(l Line) bool { return l.Shared }) {
		notes = append(notes, sharedNote)
	}
	return notes
}

// markdownMarks writes the notes of markNotes.
func markdownMarks(w io.Writer, rec *comparison.Record, tables []Table) {
	for _, note := range markNotes(rec, tables) {
		fmt.Fprintf(w, "%s\n\n", note)
	}
}
