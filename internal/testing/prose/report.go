package prose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Finding is one word of dialect or one long sentence.
type Finding struct {
	File string
	// Line is the line of the comment or paragraph that has the finding.
	Line int
	Text string
}

// String returns the finding as file:line: text.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// A Ceiling is the number of findings of one kind that the tree may have.
type Ceiling struct {
	Name string
	// Max is the largest count that passes.
	Max int
	// Slack is how far the count may lie below Max before Max must be lowered.
	Slack int
}

// Judge returns "" when the count of findings is right for the ceiling, and
// otherwise the text of a failure.
func (c Ceiling) Judge(findings []Finding) string {
	n := len(findings)
	switch {
	case n > c.Max:
		return fmt.Sprintf("%d %s, the ceiling is %d. The worst files:\n%s", n, c.Name, c.Max, worst(findings, 10))
	case n < c.Max-c.Slack:
		return fmt.Sprintf("%d %s, the ceiling is %d: lower it to %d in internal/testing/prose/ceilings.go", n, c.Name, c.Max, n)
	}
	return ""
}

// worst lists the files with the most findings, at most limit of them, each
// with its count and its first finding.
func worst(findings []Finding, limit int) string {
	type file struct {
		count int
		first Finding
	}
	byName := map[string]*file{}
	for _, f := range findings {
		if byName[f.File] == nil {
			byName[f.File] = &file{first: f}
		}
		byName[f.File].count++
	}
	files := make([]*file, 0, len(byName))
	for _, f := range byName {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *file) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.first.File, b.first.File))
	})
	var list strings.Builder
	for _, f := range files[:min(limit, len(files))] {
		fmt.Fprintf(&list, "\t%4d  %s\n", f.count, f.first)
	}
	return list.String()
}
