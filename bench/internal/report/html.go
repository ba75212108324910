package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/stores"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pageData is the input of the page template.
type pageData struct {
	Title    string
	Headline string
	Note     []string // paragraphs
	Names    []nameColor
	Glances  []picture
	Tables   []pageTable
	Behind   []pageBehind
	Above    []string // explanations of figures above a limit of the device
	Marks    []string // what the marks of rows mean
	Standing string   // how many rows Behind lists
	Costs    []picture
	Pictures []picture
	Limits   limitsTable
	Troubles []workload.Result
	Stores   []stores.Info

	Processors string // how many Go processors the stores had

	HistoryTitle, HistoryNote string
	History                   []historicTable
}

type nameColor struct {
	Name  string
	Color template.CSS
}

type pageBehind struct{ Section, Label, Ours, Best, Worse, Reason string }

type pageTable struct {
	Title, Note string
	Stores      []string
	Lines       []pageLine
}

type pageLine struct {
	Label                 string
	Cells                 []pageCell
	Ratio, Spread, Target string
	Interval, Verdict     string
	VerdictClass          Verdict
	RatioClass            string // gain, loss or empty
	Chart                 template.HTML
	Hint                  string // how to read the chart
}

type pageCell struct{ Text, Hint, Class string }

// HTML writes a self-contained page with the tables, charts and history of a
// record.
func HTML(out io.Writer, rec *comparison.Record) error {
	names := storeNames(rec)
	d := pageData{
		Title:        "stoat and its peers, " + rec.Settings.Began.Format("2006-01-02"),
		Headline:     headline(rec),
		Note:         strings.Split(rec.Note, "\n\n"),
		Pictures:     pictures(rec, names),
		Troubles:     troubles(rec),
		Stores:       storesOf(rec),
		HistoryTitle: historyTitle,
		Processors:   processorsNote,
		HistoryNote:  historyNote,
		History:      history,
	}
	for _, name := range names {
		// The colors are constants of this package.
		d.Names = append(d.Names, nameColor{name, template.CSS(colorOf(name))})
	}
	d.Limits = limitsOf(rec)
	tables := Tables(rec, names)
	for _, t := range tables {
		d.Tables = append(d.Tables, pageTableOf(t))
	}
	d.Glances, d.Costs = glances(tables), costs(tables)
	d.Above = aboveLimits(rec, tables)
	d.Marks = markNotes(rec, tables)
	lines := behind(tables)
	d.Standing = standing(tables)
	for _, l := range lines {
		d.Behind = append(d.Behind, pageBehind{l.Section, l.label(), l.oursText(), l.bestText(), l.worseText(), l.Reason})
	}
	return page.Execute(out, d)
}

func pageTableOf(t Table) pageTable {
	p := pageTable{Title: t.Title, Note: t.Note, Stores: t.Stores}
	for _, l := range t.Lines {
		line := pageLine{
			Label: l.label(), Ratio: l.ratioText(), Spread: l.spreadText(), Target: l.targetText(),
			Interval: l.intervalText(), Verdict: l.verdict(), VerdictClass: l.Verdict, RatioClass: ratioClass(l),
		}
		line.Chart, line.Hint = barChart(l)
		for i, c := range l.Cells {
			line.Cells = append(line.Cells, pageCellOf(c, i == l.Best))
		}
		p.Lines = append(p.Lines, line)
	}
	return p
}

// ratioClass returns the CSS class of a ratio: gain, loss, or empty where the
// difference may be noise or is less than a tenth.
func ratioClass(l Line) string {
	switch f := factor(l); {
	case l.slight():
		return ""
	case f >= behindFrom:
		return "loss"
	case f > 0 && f <= 1/behindFrom:
		return "gain"
	}
	return ""
}

func pageCellOf(c Cell, best bool) pageCell {
	p := pageCell{Text: c.text(), Hint: c.spreadText()}
	switch {
	case c.failed():
		p.Class = "failed"
	case best:
		p.Class = "best"
	case c.Store == ours:
		p.Class = "ours"
	}
	return p
}
