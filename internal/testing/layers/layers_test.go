package layers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestModule_KeepsItsShape checks the module that this package belongs to.
func TestModule_KeepsItsShape(t *testing.T) {
	t.Parallel()
	violations, err := Stoat.Check(os.DirFS(moduleRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

// moduleRoot returns the directory of go.mod above this package.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(mod), "module "+Module+"\n") {
		t.Fatalf("%s is not the go.mod of %s", dir, Module)
	}
	return dir
}

// small is a shape for the trees below.
var small = Shape{
	Module: "m",
	Floors: map[string]int{
		"low": 1, "left": 2, "right": 2, "special": 2, ".": 3, "cmd/m": 4,
	},
	Exceptions:     map[Edge]bool{{From: "special", To: "left"}: true},
	TestSupport:    []string{"kit"},
	Guarded:        map[string][]string{"os": {"low"}, "C": {}, "example.org/dep": {"low"}, "math/rand": {}, "math/rand/v2": {Anyone}},
	GuardedInTests: map[string][]string{"os": {"."}},
}

func TestCheck_FindsEachForbiddenImport(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, file, imports, want string
	}{
		{"upwards", "low/a.go", "m/left", "low/a.go:3:8: low (floor 1) imports left (floor 2)"},
		{"sideways", "left/a.go", "m/right", "left/a.go:3:8: left (floor 2) imports right (floor 2)"},
		{"the exception is one way", "left/a.go", "m/special", "left/a.go:3:8: left (floor 2) imports special (floor 2)"},
		{"to the root from below", "left/a.go", "m", "left/a.go:3:8: left (floor 2) imports . (floor 3)"},
		{"to the command from the root", "a.go", "m/cmd/m", "a.go:3:8: . (floor 3) imports cmd/m (floor 4)"},
		{"upwards in a test", "low/a_test.go", "m/left", "low/a_test.go:3:8: low (floor 1) imports left (floor 2)"},
		{"test support in the product", "left/a.go", "m/kit", "left/a.go:3:8: left imports kit, which is for tests only"},
		{"test support in a directory", "left/a.go", "m/kit/sub", "left/a.go:3:8: left imports kit/sub, which is for tests only"},
		{"the operating system", "left/a.go", "os", "left/a.go:3:8: left imports os, which only low may"},
		{"a part of it", "left/a.go", "os/signal", "left/a.go:3:8: left imports os/signal, which only low may"},
		{"the operating system in a test", "left/a_test.go", "os", "left/a_test.go:3:8: left imports os, which only low may"},
		{"the test's permission used by the product", "a.go", "os", "a.go:3:8: . imports os, which only low may"},
		{"cgo", "low/a.go", "C", "low/a.go:3:8: low imports C, which no package may"},
		{"the old random numbers", "left/a.go", "math/rand", "left/a.go:3:8: left imports math/rand, which no package may"},
		{"a dependency through another door", "left/a.go", "example.org/dep/sub", "left/a.go:3:8: left imports example.org/dep/sub, which only low may"},
		{"an unknown dependency", "low/a.go", "example.org/other", "low/a.go:3:8: low imports example.org/other, a dependency without a row in Guarded"},
		{"a name that begins like a guarded one", "low/a.go", "example.org/deputy", "low/a.go:3:8: low imports example.org/deputy, a dependency without a row in Guarded"},
		{"a package without a floor", "stray/a.go", "m/left", "stray/a.go: package stray has no floor"},
		{"a name that begins like test support", "kitchen/a.go", "fmt", "kitchen/a.go: package kitchen has no floor"},
		{"a file of another platform", "low/a_plan9.go", "m/left", "low/a_plan9.go:3:8: low (floor 1) imports left (floor 2)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := check(t, map[string]string{c.file: c.imports})
			if len(got) != 1 || got[0] != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCheck_AllowsWhatTheShapeAllows(t *testing.T) {
	t.Parallel()
	got := check(t, map[string]string{
		"left/a.go":               "m/low",
		"left/b.go":               "fmt",
		"left/a_test.go":          "m/right",
		"left/external_test.go":   "m/left",
		"left/kit_test.go":        "m/kit",
		"left/sub_test.go":        "m/kit/sub",
		"kit/a.go":                "m/cmd/m",
		"kit/sub/a.go":            "m/kit",
		"low/a.go":                "os",
		"low/b.go":                "example.org/dep/sub",
		"left/c.go":               "math/rand/v2",
		"special/a.go":            "m/left",
		"a.go":                    "m/left",
		"a_test.go":               "os",
		"cmd/m/main.go":           "m",
		"left/testdata/bad.go":    "os",
		"nested/deep/a.go":        "example.org/other",
		"_ignored/a.go":           "C",
		".hidden/a.go":            "C",
		"left/notes.txt":          "C",
		"vendor/example.org/x.go": "C",
	}, "nested/go.mod")
	if len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestCheck_ReportsAFileThatDoesNotParse(t *testing.T) {
	t.Parallel()
	_, err := small.Check(fstest.MapFS{"low/a.go": {Data: []byte("package")}})
	if err == nil {
		t.Error("a file that does not parse passed")
	}
}

// TestTable_NamesOnlyPlacedPackages finds misspelt packages in the table, which would
// silently allow or forbid nothing.
func TestTable_NamesOnlyPlacedPackages(t *testing.T) {
	t.Parallel()
	var named []string
	for edge := range Stoat.Exceptions {
		named = append(named, edge.From, edge.To)
	}
	for _, guards := range []map[string][]string{Stoat.Guarded, Stoat.GuardedInTests} {
		for _, packages := range guards {
			named = append(named, slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return p == Anyone })...)
		}
	}
	for _, pkg := range named {
		if !Stoat.placed(pkg) && !Stoat.support(pkg) {
			t.Errorf("the table names %q, which has no floor", pkg)
		}
	}
	for guarded := range Stoat.GuardedInTests {
		if _, ok := Stoat.Guarded[guarded]; !ok {
			t.Errorf("%q is allowed to some tests but has no row in Guarded", guarded)
		}
	}
}

// used is a tree in which small has no stale row.
var used = map[string]string{
	"kit/sub/a.go":  "fmt",
	"low/a.go":      "os",
	"low/b.go":      "example.org/dep/sub",
	"left/a.go":     "math/rand/v2",
	"right/a.go":    "m/low",
	"special/a.go":  "m/left",
	"a.go":          "m/left",
	"a_test.go":     "os",
	"cmd/m/main.go": "m",
}

func TestStale_NoneInATreeThatUsesEveryRow(t *testing.T) {
	t.Parallel()
	got, err := small.Check(treeOf(used))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}
}

// TestStale_EachUnusedRowIsReported takes one use at a time out of the tree, or
// replaces it by one that does not need the row.
func TestStale_EachUnusedRowIsReported(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, file, imports string // no imports: the file is gone
		want                []string
	}{
		{"a package without files", "right/a.go", "", []string{"stale row: Floors has right, which has no Go files"}},
		{"test support without files", "kit/sub/a.go", "", []string{"stale row: TestSupport has kit, which has no Go files"}},
		{"an exception", "special/a.go", "m/low", []string{"stale row: Exceptions lets special import left, which no file needs"}},
		{"a guarded path", "low/a.go", "fmt", []string{"stale row: Guarded lets low import os, which no file needs"}},
		{"a dependency", "low/b.go", "fmt", []string{"stale row: Guarded lets low import example.org/dep, which no file needs"}},
		{"a path for all packages", "left/a.go", "fmt", []string{"stale row: Guarded lets any package import math/rand/v2, which no file needs"}},
		{"a guarded path in tests", "a_test.go", "fmt", []string{"stale row: GuardedInTests lets . import os, which no file needs"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tree := treeOf(used)
			delete(tree, c.file)
			if c.imports != "" {
				tree[c.file] = importing(c.imports)
			}
			got, err := small.Check(tree)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestStale_AnImportThatNeedsNoRowDoesNotCount has rows for imports that are
// there but are allowed anyway, or are forbidden anyway.
func TestStale_AnImportThatNeedsNoRowDoesNotCount(t *testing.T) {
	t.Parallel()
	shape := Shape{
		Module:         "m",
		Floors:         map[string]int{"low": 1, "left": 2, "right": 2},
		Exceptions:     map[Edge]bool{{From: "left", To: "low"}: true, {From: "left", To: "right"}: true},
		Guarded:        map[string][]string{"os": {"low"}, "example.org/dep": {}},
		GuardedInTests: map[string][]string{"os": {"low"}},
	}
	got, err := shape.Check(treeOf(map[string]string{
		"left/a.go": "m/low", "left/a_test.go": "m/right", "right/a.go": "fmt", "low/a.go": "os", "low/a_test.go": "os",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"stale row: Exceptions lets left import low, which no file needs",
		"stale row: Exceptions lets left import right, which no file needs",
		"stale row: Guarded has example.org/dep, which no package may import anyway",
		"stale row: GuardedInTests lets low import os, which no file needs",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// treeOf builds a tree of files with one import each.
func treeOf(imports map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, imported := range imports {
		tree[name] = importing(imported)
	}
	return tree
}

// importing returns a file with one import.
func importing(imported string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("package p\n\nimport \"" + imported + "\"\n")}
}

// In a package of test support every file may import what test files may.
func TestCheck_FilesOfTestSupportCountAsTests(t *testing.T) {
	t.Parallel()
	shape := small
	shape.GuardedInTests = map[string][]string{"os": {"kit"}}
	c := newChecker(&shape, treeOf(map[string]string{"kit/a.go": "os"}))
	if err := c.walk(); err != nil {
		t.Fatal(err)
	}
	if len(c.violations) != 0 {
		t.Errorf("got %q, want nothing", c.violations)
	}
}

// check builds a tree of files with one import each, and of empty files. It
// returns what breaks the small shape there, without stale rows.
func check(t *testing.T, imports map[string]string, empty ...string) []string {
	t.Helper()
	tree := treeOf(imports)
	for _, name := range empty {
		tree[name] = &fstest.MapFile{}
	}
	c := newChecker(&small, tree)
	if err := c.walk(); err != nil {
		t.Fatal(err)
	}
	return c.violations
}
