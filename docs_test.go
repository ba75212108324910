package stoat_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// docs/testing.md names a test for each fault that other stores had. These
// tests keep the table true.

const faultsHeading = "## Faults that other stores had"

// faultRow is a row of the table: the fault, tests in backticks, and the
// directories of their packages in backticks.
var faultRow = regexp.MustCompile("^\\| ([^|]+) \\| ((?:`[^`]+`(?:, )?)+) \\| ((?:`[^`]+`(?:, )?)+) \\|$")

// brokenRows returns what is not true of the table in a document: a row that
// cannot be read, a fault that is named twice, a test that no package of its row
// has, and a package that has no test of its row. Behind a slash in the name of a
// test there is the name of a part of it, which stands in one of the package's tests
// as it is. rows is the number of rows that were read.
func brokenRows(module fs.FS, document string) (broken []string, rows int) {
	_, section, found := strings.Cut(document, faultsHeading+"\n")
	if !found {
		return []string{"there is no section " + faultsHeading}, 0
	}
	section, _, _ = strings.Cut(section, "\n## ")
	seen, packages := map[string]bool{}, map[string]testPackage{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| fault |") {
			continue
		}
		rows++
		row := faultRow.FindStringSubmatch(line)
		if row == nil {
			broken = append(broken, "not a row of fault, tests and package: "+line)
			continue
		}
		if seen[row[1]] {
			broken = append(broken, "twice: "+row[1])
		}
		seen[row[1]] = true
		for dir := range listed(row[3]) {
			if _, read := packages[dir]; !read {
				packages[dir] = testsOf(module, dir)
			}
		}
		missing, used := 0, map[string]bool{}
		for name := range listed(row[2]) {
			found := false
			for dir := range listed(row[3]) {
				if packages[dir].has(name) {
					found, used[dir] = true, true
				}
			}
			if !found {
				missing++
				broken = append(broken, "no test "+name+" in "+row[3]+", for: "+row[1])
			}
		}
		for dir := range listed(row[3]) {
			if missing == 0 && !used[dir] {
				broken = append(broken, "none of these tests is in "+dir+", for: "+row[1])
			}
		}
	}
	return broken, rows
}

// listed returns the words of a list in backticks.
func listed(cell string) iter.Seq[string] {
	return strings.SplitSeq(strings.Trim(cell, "`"), "`, `")
}

// A testPackage is the test functions of a package, and the text of all its files: a
// campaign may list the parts of a test in a file that other packages use.
type testPackage struct {
	tests map[string]bool
	text  string
}

// has reports whether the package has a test, or a part of one behind a slash.
func (p testPackage) has(name string) bool {
	name, part, _ := strings.Cut(name, "/")
	return p.tests[name] && (part == "" || strings.Contains(p.text, `"`+part+`"`))
}

func testsOf(module fs.FS, dir string) testPackage {
	p := testPackage{tests: map[string]bool{}}
	names, _ := fs.Glob(module, path.Join(dir, "*.go")) // the pattern is well formed
	for _, name := range names {
		src, err := fs.ReadFile(module, name)
		if err != nil {
			continue // its tests are missing, then
		}
		p.text += string(src)
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		if err != nil {
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				p.tests[f.Name.Name] = true
			}
		}
	}
	return p
}

func TestDocs_EachFaultOfOtherStoresNamesATestThatExists(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("docs/testing.md")
	testkit.Must(t, err)
	broken, rows := brokenRows(os.DirFS("."), string(document))
	for _, b := range broken {
		t.Error(b)
	}
	if rows < 30 {
		t.Errorf("the table has %d rows", rows)
	}
}

func TestDocs_UntrueRowsAreFound(t *testing.T) {
	t.Parallel()
	module := fstest.MapFS{
		"a/a_test.go": {Data: []byte("package a\n\nfunc TestOne(t *testing.T) { t.Run(\"a part\", nil) }\n\nfunc (x) TestMethod() {}\n\n// func TestGone() {}\n")},
		"a/a.go":      {Data: []byte("package a\n\nfunc TestOutside() {}\n")},
		"c/c_test.go": {Data: []byte("package c\n\nfunc TestTwo() {}\n")},
	}
	for row, want := range map[string]int{
		"| a fault | `TestOne` | `a` |":                                      0,
		"| a fault | `TestOne/a part`, `TestOne` | `a` |":                    0,
		"| a fault | `TestOne/a part`, `TestTwo` | `a`, `c` |":               0,
		"| a fault | `TestOne` | `a`, `c` |":                                 1,
		"| a fault | `TestOne`, `TestGone` | `a`, `c` |":                     1,
		"| a fault | `TestOne/another part` | `a` |":                         1,
		"| a fault | `TestGone` | `a` |":                                     1,
		"| a fault | `TestMethod`, `TestOutside` | `a` |":                    2,
		"| a fault | `TestOne` | `b` |":                                      1,
		"| a fault | TestOne | `a` |":                                        1,
		"| a fault | | `a` |":                                                1,
		"| a fault | `TestOne` | `a` |\n| a fault | `TestOne` | `a` |":       1,
		"| a fault | `TestOne` | `a` |\n\n## Next\n\n| other | `No` | `a` |": 0,
	} {
		broken, _ := brokenRows(module, faultsHeading+"\n\n| fault | tests | package |\n|---|---|---|\n"+row)
		if len(broken) != want {
			t.Errorf("%s\n\t%d complaints, want %d: %q", row, len(broken), want, broken)
		}
	}
	if broken, _ := brokenRows(module, "no such section"); len(broken) != 1 {
		t.Errorf("a document without the section: %q", broken)
	}
}

// The program of README is that of ExampleDB, which runs.
func TestDocs_ProgramOfTheReadmeIsTheExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	testkit.Must(t, err)
	_, program, found := strings.Cut(string(readme), "```go\n")
	program, _, closed := strings.Cut(program, "```\n")
	if !found || !closed {
		t.Fatal("README has no program")
	}
	example, err := os.ReadFile("example_test.go")
	testkit.Must(t, err)
	var indented strings.Builder
	for line := range strings.Lines(program) {
		if line != "\n" {
			indented.WriteByte('\t')
		}
		indented.WriteString(line)
	}
	if !strings.Contains(string(example), indented.String()) {
		t.Error("the program of README is not a part of ExampleDB")
	}
}
