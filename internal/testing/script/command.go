package script

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A Command is the command of one case.
type Command struct {
	// Pos is the place of the case, as file:line.
	Pos string
	// Name is the first word of the line, Args are the others.
	Name string
	Args []string
	// Input is the lines between the command and the dashes, each with its
	// newline.
	Input string

	line string
}

// Lines returns the lines of the input, without newlines.
func (c *Command) Lines() []string {
	if c.Input == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(c.Input, "\n"), "\n")
}

// Has reports whether word is an argument.
func (c *Command) Has(word string) bool {
	return slices.Contains(c.Args, word)
}

// Lookup returns the value of the argument name=value.
func (c *Command) Lookup(name string) (string, bool) {
	for _, arg := range c.Args {
		if n, v, ok := strings.Cut(arg, "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}

// String returns the value of the argument name=value, or otherwise if it is
// absent.
func (c *Command) String(name, otherwise string) string {
	if v, ok := c.Lookup(name); ok {
		return v
	}
	return otherwise
}

// Int returns the value of the argument name=number, or otherwise if it is
// absent. A value that is no number fails the test.
func (c *Command) Int(t testing.TB, name string, otherwise int64) int64 {
	t.Helper()
	v, ok := c.Lookup(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		t.Fatalf("%s: %s=%s: %v", c.Pos, name, v, err)
	}
	return n
}

// Unknown fails the test because the handler does not know the command.
func (c *Command) Unknown(t testing.TB) {
	t.Helper()
	t.Fatalf("%s: unknown command %q", c.Pos, c.Name)
}
