package report

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// The figures of a run stand between these marks of a document.
const (
	spliceBegin = "<!-- results: begin -->"
	spliceEnd   = "<!-- results: end -->"
)

// ErrNoMarks says that a document lacks the marks for the figures.
var ErrNoMarks = errors.New("the document lacks the marks for results")

// Splice replaces the text between the marks of document by the summary of
// rec. fullReport is the link to the full report.
func Splice(document []byte, rec *comparison.Record, fullReport string) ([]byte, error) {
	before, rest, ok := bytes.Cut(document, []byte(spliceBegin))
	_, after, closed := bytes.Cut(rest, []byte(spliceEnd))
	if !ok || !closed {
		return nil, fmt.Errorf("%w: want %s and %s", ErrNoMarks, spliceBegin, spliceEnd)
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(spliceBegin + "\n\n")
	if err := Summary(&out, rec, fullReport); err != nil {
		return nil, err
	}
	out.WriteString(spliceEnd)
	out.Write(after)
	return out.Bytes(), nil
}
