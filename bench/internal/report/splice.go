package report

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// The marks in a document between which the tables of a run stand.
const (
	spliceBegin = "<!-- results: begin -->"
	spliceEnd   = "<!-- results: end -->"
)

// ErrNoMarks says that a document has no place for results.
var ErrNoMarks = errors.New("no place for results")

// Splice returns document with the tables of rec in place of what stands
// between its marks. The headings go down by a level.
func Splice(document []byte, rec *comparison.Record) ([]byte, error) {
	before, rest, ok := bytes.Cut(document, []byte(spliceBegin))
	_, after, closed := bytes.Cut(rest, []byte(spliceEnd))
	if !ok || !closed {
		return nil, fmt.Errorf("%w: want %s and %s", ErrNoMarks, spliceBegin, spliceEnd)
	}
	var tables bytes.Buffer
	if err := Markdown(&tables, rec); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(spliceBegin + "\n\n")
	for line := range bytes.Lines(tables.Bytes()) {
		if bytes.HasPrefix(line, []byte("#")) {
			out.WriteByte('#')
		}
		out.Write(line)
	}
	out.WriteString(spliceEnd)
	out.Write(after)
	return out.Bytes(), nil
}
