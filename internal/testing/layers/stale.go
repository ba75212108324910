package layers

import (
	"fmt"
	"slices"
	"strings"
)

// stale returns the rows of the shape that the tree did not use, sorted. A
// stale row hides a mistake: it would admit a package or an import that comes
// back without a decision.
//
// A row of Guarded without packages is a prohibition. It is never stale for a
// path of the standard library. For another module it is stale unless a test
// may import the path, because Check refuses unlisted modules anyway.
func (c *checker) stale() []string {
	var rows []string
	add := func(format string, args ...any) { rows = append(rows, "stale row: "+fmt.Sprintf(format, args...)) }
	for pkg := range c.Floors {
		if !c.packages[pkg] {
			add("Floors has %s, which has no Go files", pkg)
		}
	}
	for _, dir := range c.TestSupport {
		known := false
		for pkg := range c.packages {
			known = known || within(pkg, dir)
		}
		if !known {
			add("TestSupport has %s, which has no Go files", dir)
		}
	}
	for edge := range c.Exceptions {
		if !c.exceptions[edge] {
			add("Exceptions lets %s import %s, which no file needs", edge.From, edge.To)
		}
	}
	for path, admitted := range c.Guarded {
		if len(admitted) == 0 && outside(path) && len(c.GuardedInTests[path]) == 0 {
			add("Guarded has %s, which no package may import anyway", path)
		}
	}
	rows = append(rows, unused("Guarded", c.Guarded, c.guarded)...)
	rows = append(rows, unused("GuardedInTests", c.GuardedInTests, c.inTests)...)
	return slices.Sorted(slices.Values(rows))
}

// unused returns the entries of a table of guarded paths that no import needs.
func unused(table string, guarded map[string][]string, used map[grant]bool) []string {
	var rows []string
	for path, admitted := range guarded {
		for _, pkg := range admitted {
			if !used[grant{path, pkg}] {
				rows = append(rows, fmt.Sprintf("stale row: %s lets %s import %s, which no file needs", table, strings.Replace(pkg, Anyone, "any package", 1), path))
			}
		}
	}
	return rows
}
