package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// begin returns a handler with its own counter.
func begin(*testing.T) Handler {
	count := 0
	return func(t *testing.T, c *Command) string {
		switch c.Name {
		case "split":
			return strings.Join(strings.Fields(c.Input), "\n")
		case "print":
			return strings.Join(c.Lines(), "\n")
		case "args":
			return fmt.Sprintf("upper=%t lower=%t case=%s other=%s count=%d limit=%d",
				c.Has("upper"), c.Has("lower"), c.String("case", "none"), c.String("other", "none"),
				c.Int(t, "count", -1), c.Int(t, "limit", -1))
		case "count":
			count++
			return fmt.Sprint(count)
		}
		c.Unknown(t)
		return ""
	}
}

func TestScript_Files(t *testing.T) {
	Run(t, "testdata/*", begin)
}

// TestRewrite_ReplacesOnlyTheOutput changes each expected output in a copy of a
// script and rewrites it. The result is the original, byte for byte.
func TestRewrite_ReplacesOnlyTheOutput(t *testing.T) {
	t.Parallel()
	original, err := os.ReadFile("testdata/words")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := parse("words", string(original))
	if err != nil {
		t.Fatal(err)
	}
	if got := format(parts); got != string(original) {
		t.Fatalf("format is not the inverse of parse:\n%s", got)
	}
	for _, p := range parts {
		if p.command != nil {
			p.want = "spoiled\n\n.\n"
		}
	}
	file := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(file, []byte(format(parts)), 0o600); err != nil {
		t.Fatal(err)
	}
	runFile(t, file, begin(t), true)
	rewritten, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(rewritten) != string(original) {
		t.Errorf("rewritten:\n%s\nwant:\n%s", rewritten, original)
	}
}

// TestMismatch_WrongOutputFails calls mismatch, because a failing subtest would
// fail its parent.
func TestMismatch_WrongOutputFails(t *testing.T) {
	t.Parallel()
	if failed := fails(t, "print\nyes\n----\nno\n"); !failed {
		t.Error("a wrong answer passed")
	}
	if failed := fails(t, "print\nyes\n----\nyes\nyes\n"); !failed {
		t.Error("an answer that lacks a line passed")
	}
	if failed := fails(t, "print\nyes\n----\nyes\n"); failed {
		t.Error("a right answer failed")
	}
}

// fails runs a script of one case and reports whether its output was wrong.
func fails(t *testing.T, src string) bool {
	t.Helper()
	parts, err := parse("case", src)
	if err != nil {
		t.Fatal(err)
	}
	return mismatch(parts[0], begin(t)(t, parts[0].command)) != ""
}

func TestParse_RefusesBrokenFiles(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"print\nx\n":              `f:1: "print" has no line ----`,
		"# c\n\nprint\n----\n\n ": "f:6: the line has only spaces",
		"\nlast":                  `f:2: "last" has no line ----`,
	} {
		_, err := parse("f", src)
		if err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", src, err, want)
		}
	}
}
