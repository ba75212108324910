package report

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// The figures of a run stand between marks with one of these names.
const (
	summaryMarks = "results" // the summary
	figuresMarks = "figures" // the few figures of a front page
)

// ErrNoMarks says that a document lacks the marks for the figures.
var ErrNoMarks = errors.New("the document lacks the marks for results")

// Splice replaces the text between the marks of document by the summary of
// rec. fullReport is the link to the full report.
func Splice(document []byte, rec *comparison.Record, fullReport string) ([]byte, error) {
	var text bytes.Buffer
	if err := Summary(&text, rec, fullReport); err != nil {
		return nil, err
	}
	return between(document, summaryMarks, text.Bytes())
}

// SpliceFigures replaces the text between the marks of a front page by the
// figures of rec. details is the link to the page of benchmarks.
func SpliceFigures(document []byte, rec *comparison.Record, details string) ([]byte, error) {
	var text bytes.Buffer
	if err := Figures(&text, rec, details); err != nil {
		return nil, err
	}
	return between(document, figuresMarks, text.Bytes())
}

// between replaces the text between the marks with that name.
func between(document []byte, name string, text []byte) ([]byte, error) {
	begin, end := fmt.Sprintf("<!-- %s: begin -->", name), fmt.Sprintf("<!-- %s: end -->", name)
	before, rest, ok := bytes.Cut(document, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return nil, fmt.Errorf("%w: want %s and %s", ErrNoMarks, begin, end)
	}
	return bytes.Join([][]byte{before, []byte(begin + "\n\n"), text, []byte(end), after}, nil), nil
}
