package script

import (
	"fmt"
	"strings"
)

// dashes separate the command and its input from the expected output.
const dashes = "----"

// A part is a comment or blank line, kept as it is, or a case.
type part struct {
	verbatim string
	command  *Command // nil in a verbatim part
	want     string
}

// parse splits a file into its parts.
func parse(file, src string) ([]*part, error) {
	var parts []*part
	lines := strings.Split(src, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1] // the empty string after the last newline
	}
	for i := 0; i < len(lines); {
		line := lines[i]
		if line == "" || line[0] == '#' {
			parts = append(parts, &part{verbatim: line + "\n"})
			i++
			continue
		}
		p, n, err := parseCase(lines[i:])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		p.command.Pos = fmt.Sprintf("%s:%d", file, i+1)
		parts = append(parts, p)
		i += n
	}
	return parts, nil
}

// parseCase parses the case at the beginning of lines. It returns how many lines
// the case has, without the blank line after it.
func parseCase(lines []string) (*part, int, error) {
	words := strings.Fields(lines[0])
	if len(words) == 0 {
		return nil, 0, fmt.Errorf("the line has only spaces")
	}
	p := &part{command: &Command{Name: words[0], Args: words[1:], line: lines[0]}}
	i := 1
	for ; ; i++ {
		if i == len(lines) {
			return nil, 0, fmt.Errorf("%q has no line %s", lines[0], dashes)
		}
		if lines[i] == dashes {
			break
		}
		p.command.Input += lines[i] + "\n"
	}
	for i++; i < len(lines) && lines[i] != ""; i++ {
		p.want += strings.TrimPrefix(lines[i], ".") + "\n"
	}
	return p, i, nil
}

// format is the inverse of parse.
func format(parts []*part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.command == nil {
			b.WriteString(p.verbatim)
			continue
		}
		b.WriteString(p.command.line + "\n" + p.command.Input + dashes + "\n")
		for _, line := range strings.SplitAfter(p.want, "\n") {
			if line == "" {
				continue // the empty string after the last newline
			}
			if line == "\n" || line[0] == '.' {
				line = "." + line
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
