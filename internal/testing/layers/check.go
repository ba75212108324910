package layers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Anyone, in a row of Guarded, stands for every package.
const Anyone = "*"

// An Edge is an import of one package of the module by another.
type Edge struct{ From, To string }

// A Shape says what the packages of a module may import. Every row must be in
// use: Check reports rows that the tree no longer needs.
type Shape struct {
	Module string
	// Floors has a row for every package but test support.
	Floors map[string]int
	// Exceptions are the edges allowed against the floors.
	Exceptions map[Edge]bool
	// TestSupport lists the directories whose packages only test files import. Such a
	// package needs no floor.
	TestSupport []string
	// Guarded lists, by import path, the packages that may import it. A path
	// also stands for the paths below it that have no row of their own. An
	// import from outside the module and the standard library needs a row.
	Guarded map[string][]string
	// GuardedInTests lists the packages whose test files may import a guarded
	// path, in addition to the packages in Guarded. In a package of TestSupport
	// every file counts as a test file.
	GuardedInTests map[string][]string
}

// Check reads the imports of every Go file of the module at the root of tree, for any
// platform and build tags. It returns one line of text for each import that breaks the
// shape. It returns another for each row of the shape that the tree no longer uses. Check
// skips nested modules and directories that the go command ignores.
func (s *Shape) Check(tree fs.FS) ([]string, error) {
	c := newChecker(s, tree)
	if err := c.walk(); err != nil {
		return c.violations, err
	}
	return append(c.violations, c.stale()...), nil
}

// A checker reads one tree. It collects the violations and notes which rows of
// the shape the tree uses.
type checker struct {
	*Shape
	tree       fs.FS
	violations []string
	packages   map[string]bool // the directories that have Go files
	exceptions map[Edge]bool   // the exceptions that an import needs
	guarded    map[grant]bool  // the entries of Guarded that an import needs
	inTests    map[grant]bool  // the entries of GuardedInTests that an import needs
}

// A grant is one entry of Guarded or GuardedInTests: pkg may import path.
type grant struct{ path, pkg string }

func newChecker(s *Shape, tree fs.FS) *checker {
	return &checker{
		Shape: s, tree: tree, packages: map[string]bool{}, exceptions: map[Edge]bool{},
		guarded: map[grant]bool{}, inTests: map[grant]bool{},
	}
}

// walk checks every Go file of the tree.
func (c *checker) walk() error {
	return fs.WalkDir(c.tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(c.tree, name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		if pkg := path.Dir(name); !c.packages[pkg] {
			c.packages[pkg] = true
			if !c.placed(pkg) && !c.support(pkg) {
				c.violations = append(c.violations, fmt.Sprintf("%s: package %s has no floor", name, pkg))
			}
		}
		return c.checkFile(name)
	})
}

// skipped reports whether dir is outside the module.
func skipped(tree fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	return err == nil
}

// checkFile adds the violations of one file.
func (c *checker) checkFile(name string) error {
	src, err := fs.ReadFile(c.tree, name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.ImportsOnly)
	if err != nil {
		return err
	}
	im := importer{pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", files.Position(spec.Pos()), err)
		}
		if why := c.judge(im, imported); why != "" {
			c.violations = append(c.violations, fmt.Sprintf("%s: %s", files.Position(spec.Pos()), why))
		}
	}
	return nil
}

// placed reports whether a package has a floor.
func (s *Shape) placed(pkg string) bool {
	_, ok := s.Floors[pkg]
	return ok
}

// support reports whether only test files may import a package.
func (s *Shape) support(pkg string) bool {
	return slices.ContainsFunc(s.TestSupport, func(dir string) bool { return within(pkg, dir) })
}

// within reports whether a package is in dir or below it.
func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// An importer is the file that imports.
type importer struct {
	pkg  string
	test bool
}

// judge says why im may not import the path, or returns "" if it may.
func (c *checker) judge(im importer, imported string) string {
	if imported == c.Module {
		return c.judgeEdge(im, ".")
	}
	if to, ok := strings.CutPrefix(imported, c.Module+"/"); ok {
		return c.judgeEdge(im, to)
	}
	return c.judgeGuarded(im, imported)
}

// judgeEdge judges an import within the module.
func (c *checker) judgeEdge(im importer, to string) string {
	from := im.pkg
	if from == to && im.test {
		return "" // an external test of its own package
	}
	if c.support(to) {
		if im.test || c.support(from) {
			return ""
		}
		return fmt.Sprintf("%s imports %s, which is for tests only", from, to)
	}
	if !c.placed(from) || !c.placed(to) {
		return "" // test support may import it, or walk and stale report the lack of a floor
	}
	fromFloor, toFloor := c.Floors[from], c.Floors[to]
	if toFloor < fromFloor || im.test && toFloor == fromFloor {
		return ""
	}
	if edge := (Edge{from, to}); c.Exceptions[edge] {
		c.exceptions[edge] = true
		return ""
	}
	return fmt.Sprintf("%s (floor %d) imports %s (floor %d)", from, fromFloor, to, toFloor)
}

// judgeGuarded judges an import from outside the module.
func (c *checker) judgeGuarded(im importer, imported string) string {
	guard := imported
	for ; guard != "."; guard = path.Dir(guard) {
		if _, ok := c.Guarded[guard]; ok {
			break
		}
	}
	if guard == "." {
		if outside(imported) {
			return fmt.Sprintf("%s imports %s, a dependency without a row in Guarded", im.pkg, imported)
		}
		return ""
	}
	admitted := c.Guarded[guard]
	for _, pkg := range []string{im.pkg, Anyone} {
		if slices.Contains(admitted, pkg) {
			c.guarded[grant{guard, pkg}] = true
			return ""
		}
	}
	if (im.test || c.support(im.pkg)) && slices.Contains(c.GuardedInTests[guard], im.pkg) {
		c.inTests[grant{guard, im.pkg}] = true
		return ""
	}
	return fmt.Sprintf("%s imports %s, which %s may", im.pkg, imported, listOf(admitted))
}

// listOf names packages in a message.
func listOf(packages []string) string {
	if len(packages) == 0 {
		return "no package"
	}
	return "only " + strings.Join(packages, ", ")
}

// outside reports whether a path that is not of this module is of another one,
// rather than of the standard library.
func outside(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".")
}
