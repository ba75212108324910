package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "replace the expected output of script tests by the actual")

// A Handler runs one command and returns its output. The cases of one file
// run in order and share a handler, which may keep state between them.
type Handler func(t *testing.T, c *Command) string

// Run runs every file that matches the glob pattern as a subtest. It calls begin
// once for each file to get the handler of the file's commands.
func Run(t *testing.T, pattern string, begin func(t *testing.T) Handler) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("script: no file matches %q", pattern)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			runFile(t, file, begin(t), *rewrite)
		})
	}
}

// runFile runs the commands of one file.
func runFile(t *testing.T, file string, handle Handler, rewrite bool) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := parse(file, string(src))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if p.command == nil {
			continue
		}
		got := handle(t, p.command)
		if rewrite {
			p.want = normalize(got)
		} else if diff := mismatch(p, got); diff != "" {
			t.Error(diff)
		}
	}
	if text := format(parts); rewrite && text != string(src) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// mismatch describes how the output of a case differs from the expected output,
// or returns "".
func mismatch(p *part, output string) string {
	got := normalize(output)
	if got == p.want {
		return ""
	}
	return fmt.Sprintf("%s: %s\ngot:\n%s\nwant:\n%s", p.command.Pos, p.command.line, got, p.want)
}

// normalize makes nonempty output end in exactly one newline.
func normalize(output string) string {
	output = strings.TrimRight(output, "\n")
	if output == "" {
		return ""
	}
	return output + "\n"
}
