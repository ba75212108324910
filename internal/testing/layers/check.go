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

// Anyone stands for every package in a row of Guarded.
const Anyone = "*"

// An Edge is an import of one package of the module by another.
type Edge struct{ From, To string }

// A Shape says what the packages of a module may import.
type Shape struct {
	Module string
	// Floors has a row for every package.
	Floors map[string]int
	// Exceptions are the edges allowed against the floors.
	Exceptions map[Edge]bool
	// TestSupport lists the packages that only test files import.
	TestSupport []string
	// Guarded lists, by import path, the packages that may import it. A path
	// also stands for the paths below it that have no row of their own. What
	// is neither of the module nor of the standard library must have a row.
	Guarded map[string][]string
	// GuardedInTests lists the packages whose test files may import a guarded
	// path, beside the packages in Guarded. In a package of TestSupport every
	// file counts as a test file.
	GuardedInTests map[string][]string
}

// Check reads the imports of every Go file of the module at the root of tree,
// for whatever platform and build tags, and returns what is against the
// shape, one line of text for each import. Nested modules and directories
// that the go command ignores are skipped.
func (s *Shape) Check(tree fs.FS) ([]string, error) {
	var violations []string
	unplaced := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(tree, name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		if pkg := path.Dir(name); !s.placed(pkg) && !unplaced[pkg] {
			unplaced[pkg] = true
			violations = append(violations, fmt.Sprintf("%s: package %s has no floor", name, pkg))
		}
		found, err := s.checkFile(tree, name)
		violations = append(violations, found...)
		return err
	})
	return violations, err
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

// checkFile returns the violations of one file.
func (s *Shape) checkFile(tree fs.FS, name string) ([]string, error) {
	src, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	im := importer{pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
	var violations []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", files.Position(spec.Pos()), err)
		}
		if why := s.judge(im, imported); why != "" {
			violations = append(violations, fmt.Sprintf("%s: %s", files.Position(spec.Pos()), why))
		}
	}
	return violations, nil
}

// placed reports whether a package has a floor.
func (s *Shape) placed(pkg string) bool {
	_, ok := s.Floors[pkg]
	return ok
}

// An importer is the file that imports.
type importer struct {
	pkg  string
	test bool
}

// judge says why im may not import the path, or returns "".
func (s *Shape) judge(im importer, imported string) string {
	if imported == s.Module {
		return s.judgeEdge(im, ".")
	}
	if to, ok := strings.CutPrefix(imported, s.Module+"/"); ok {
		return s.judgeEdge(im, to)
	}
	return s.judgeGuarded(im, imported)
}

// judgeEdge judges an import within the module.
func (s *Shape) judgeEdge(im importer, to string) string {
	from := im.pkg
	if from == to && im.test {
		return "" // an external test of its own package
	}
	if slices.Contains(s.TestSupport, to) {
		if im.test || slices.Contains(s.TestSupport, from) {
			return ""
		}
		return fmt.Sprintf("%s imports %s, which is for tests only", from, to)
	}
	if s.Exceptions[Edge{from, to}] || !s.placed(from) || !s.placed(to) {
		return "" // a package without a floor is reported by itself
	}
	fromFloor, toFloor := s.Floors[from], s.Floors[to]
	if toFloor < fromFloor || im.test && toFloor == fromFloor {
		return ""
	}
	return fmt.Sprintf("%s (floor %d) imports %s (floor %d)", from, fromFloor, to, toFloor)
}

// judgeGuarded judges an import from outside the module.
func (s *Shape) judgeGuarded(im importer, imported string) string {
	guard := imported
	for ; guard != "."; guard = path.Dir(guard) {
		if _, ok := s.Guarded[guard]; ok {
			break
		}
	}
	if guard == "." {
		if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
			return fmt.Sprintf("%s imports %s, a dependency that nothing admits", im.pkg, imported)
		}
		return ""
	}
	admitted := s.Guarded[guard]
	if slices.Contains(admitted, im.pkg) || slices.Contains(admitted, Anyone) {
		return ""
	}
	if (im.test || slices.Contains(s.TestSupport, im.pkg)) && slices.Contains(s.GuardedInTests[guard], im.pkg) {
		return ""
	}
	return fmt.Sprintf("%s imports %s, which %s may", im.pkg, imported, listOf(admitted))
}

// listOf names packages in a message.
func listOf(packages []string) string {
	if len(packages) == 0 {
		return "nobody"
	}
	return "only " + strings.Join(packages, ", ")
}
