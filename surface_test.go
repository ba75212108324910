package stoat_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A program can import these packages. It cannot name a type of a package below
// internal, so no exported identifier of these packages may have such a type.
var publicPackages = []string{".", "feed", "filebackup", "filebackup/storetest", "merge", "sorted", "vfs", "vfs/memfs", "vfs/faultfs"}

const modulePath = "github.com/stoatdb/stoat"

// A surveyor reads the packages of a module from source, without the bodies of
// functions.
type surveyor struct {
	module   fs.FS
	fset     *token.FileSet
	standard types.Importer
	packages map[string]*surveyed // by directory
}

// A surveyed package has its files and its types.
type surveyed struct {
	files []*ast.File
	types *types.Package
}

func newSurveyor(module fs.FS) *surveyor {
	fset := token.NewFileSet()
	return &surveyor{module: module, fset: fset, standard: importer.ForCompiler(fset, "source", nil),
		packages: map[string]*surveyed{}}
}

// Import implements types.Importer. A package of another module is empty, so its types
// are invalid.
func (s *surveyor) Import(name string) (*types.Package, error) {
	dir, inside := strings.CutPrefix(name, modulePath+"/")
	if name == modulePath {
		dir, inside = ".", true
	}
	switch {
	case inside:
		p, err := s.survey(dir)
		if err != nil {
			return nil, err
		}
		return p.types, nil
	case foreign(name):
		p := types.NewPackage(name, path.Base(name))
		p.MarkComplete()
		return p, nil
	}
	return s.standard.Import(name)
}

// foreign reports whether an import path is that of another module.
func foreign(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.Contains(first, ".")
}

// survey reads and type-checks the package in a directory of the module.
func (s *surveyor) survey(dir string) (*surveyed, error) {
	if p := s.packages[dir]; p != nil {
		return p, nil
	}
	files, err := s.parse(dir)
	if err != nil {
		return nil, err
	}
	incomplete := false // some types are foreign, and errors follow from that
	for _, f := range files {
		for _, spec := range f.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			incomplete = incomplete || foreign(name) && !strings.HasPrefix(name, modulePath+"/")
		}
	}
	config := types.Config{Importer: s, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	p := &surveyed{files: files}
	if p.types, err = config.Check(path.Join(modulePath, dir), s.fset, files, nil); err != nil && !incomplete {
		return nil, err
	}
	s.packages[dir] = p
	return p, nil
}

// parse reads the files of a package for this platform, except its tests.
func (s *surveyor) parse(dir string) (files []*ast.File, err error) {
	platform := build.Default
	platform.JoinPath = path.Join
	platform.OpenFile = func(name string) (io.ReadCloser, error) { return s.module.Open(name) }
	names, err := fs.Glob(s.module, path.Join(dir, "*.go"))
	for _, name := range names {
		fits, err := platform.MatchFile(dir, path.Base(name))
		if err != nil {
			return nil, err
		}
		if !fits || strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := fs.ReadFile(s.module, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(s.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, err
}

// An exposure looks for types that a user of a package meets and cannot name.
type exposure struct {
	of    *types.Package
	seen  map[types.Type]bool
	found []string
}

// exposed returns a line for each type of an internal package, of another module, or
// without a meaning that the exported identifiers of p show.
func exposed(p *types.Package) []string {
	e := exposure{of: p, seen: map[types.Type]bool{}}
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			e.show(name, o.Type())
		}
	}
	return e.found
}

// show looks at a type that users meet at a place.
func (e *exposure) show(at string, t types.Type) {
	if e.seen[t] {
		return
	}
	e.seen[t] = true
	switch t := t.(type) {
	case *types.Basic:
		if t.Kind() == types.Invalid {
			e.found = append(e.found, at+" has an unknown type")
		}
	case *types.Alias:
		e.show(at, t.Rhs())
	case *types.Named:
		e.showNamed(at, t)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				e.show(at+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				e.show(at+"."+m.Name(), m.Type())
			}
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			e.show(at, v.Type())
		}
		for v := range t.Results().Variables() {
			e.show(at, v.Type())
		}
		for p := range t.TypeParams().TypeParams() {
			e.show(at, p.Constraint())
		}
	case *types.Map:
		e.show(at, t.Key())
		e.show(at, t.Elem())
	case interface{ Elem() types.Type }: // a pointer, a slice, an array or a channel
		e.show(at, t.Elem())
	}
}

// showNamed looks at a type with a name. What a type of another public package shows is
// a matter of that package.
func (e *exposure) showNamed(at string, t *types.Named) {
	for arg := range t.TypeArgs().Types() {
		e.show(at, arg)
	}
	of := t.Obj().Pkg()
	switch {
	case of == nil: // error, comparable
	case strings.Contains(of.Path()+"/", "/internal/") || foreign(of.Path()) && !strings.HasPrefix(of.Path(), modulePath):
		e.found = append(e.found, fmt.Sprintf("%s shows %s.%s", at, strings.TrimPrefix(of.Path(), modulePath+"/"), t.Obj().Name()))
	case of == e.of:
		e.show(at, t.Underlying())
		methods := types.NewMethodSet(types.NewPointer(t))
		for m := range methods.Methods() {
			if m.Obj().Exported() {
				e.show(at+"."+m.Obj().Name(), m.Type())
			}
		}
	}
}

func TestSurface_ShowsNoInternalType(t *testing.T) {
	t.Parallel()
	s := newSurveyor(os.DirFS("."))
	for _, dir := range publicPackages {
		p, err := s.survey(dir)
		testkit.Must(t, err)
		for _, line := range exposed(p.types) {
			t.Errorf("package %s: %s", dir, line)
		}
		for _, line := range undocumented(p.files) {
			t.Errorf("package %s: no comment says what %s is", dir, line)
		}
	}
}

func TestSurface_FindsEveryWayToShowAnInternalType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ declares, want string }{
		{"type A = b.B", "A shows internal/b.B"},
		{"type A struct{ F []*b.B; g b.B }", "A.F shows internal/b.B"},
		{"type A struct{ b.B }", "A.B shows internal/b.B"},
		{"type A struct{ inner }; type inner struct{ F b.B }", "A.inner.F shows internal/b.B"},
		{"type A struct{ inner }; type inner struct{}; func (inner) M(b.B) {}", "A.inner.M shows internal/b.B"},
		{"type A struct{}; func (*A) M() map[string]b.B { return nil }", "A.M shows internal/b.B"},
		{"type A interface{ M(...b.B) }", "A.M shows internal/b.B"},
		{"type A func(func() b.B)", "A shows internal/b.B"},
		{"var A b.B", "A shows internal/b.B"},
		{"var A = b.New()", "A shows internal/b.B"},
		{"var A chan b.B", "A shows internal/b.B"},
		{"const A = b.C", "A shows internal/b.D"},
		{"type G[T any] struct{}; func A() G[b.B] { panic(0) }", "A shows internal/b.B"},
		{"func A() *hidden { return nil }; type hidden struct{ F b.B }", "A.F shows internal/b.B"},
		{"var A foreign.T", "A has an unknown type"},
		{"type a = b.B; var v b.B; func f(b.B) {}; const A = len(b.Name)", ""},
		{"type A struct{ f b.B }; func (A) m() b.B { panic(0) }; func (A) M() error { return nil }", ""},
	} {
		s := newSurveyor(fstest.MapFS{
			"a/a.go":          {Data: []byte("package a\nimport (\"" + modulePath + "/internal/b\"; \"example.org/foreign\")\nvar _ foreign.X\n" + c.declares)},
			"internal/b/b.go": {Data: []byte("package b\ntype B struct{}\nfunc New() B { return B{} }\ntype D int\nconst C D = 1\nconst Name = `b`\n")},
		})
		p, err := s.survey("a")
		testkit.Must(t, err)
		if got := strings.Join(exposed(p.types), "; "); got != c.want {
			t.Errorf("%s\n\tgot  %q\n\twant %q", c.declares, got, c.want)
		}
	}
}

// undocumented returns the exported identifiers that no comment explains. A comment
// beside a constant or a variable is enough. A field or a method of an interface may
// be named in the comment of its type or of another field.
func undocumented(files []*ast.File) (names []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if receiver := receiverOf(d); d.Name.IsExported() && token.IsExported(receiver) && !says(d.Doc.Text(), d.Name.Name) {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					names = append(names, undocumentedIn(spec, d)...)
				}
			}
		}
	}
	return names
}

// receiverOf returns the name of the type that a method belongs to. A function counts
// as a method of an exported type.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return "Exported"
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	return strings.TrimLeft(types.ExprString(t), "*")
}

func undocumentedIn(spec ast.Spec, in *ast.GenDecl) (names []string) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && spec.Doc.Text()+spec.Comment.Text() == "" && !says(in.Doc.Text(), name.Name) {
				names = append(names, name.Name)
			}
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return nil
		}
		text := in.Doc.Text() + spec.Doc.Text()
		if !says(text, spec.Name.Name) {
			names = append(names, spec.Name.Name)
		}
		members := membersOf(spec.Type)
		for _, m := range members {
			text += m.Doc.Text() + m.Comment.Text()
		}
		for _, m := range members {
			for _, name := range m.Names {
				if name.IsExported() && !says(text, name.Name) {
					names = append(names, spec.Name.Name+"."+name.Name)
				}
			}
		}
	}
	return names
}

// membersOf returns the fields of a struct or the methods of an interface.
func membersOf(t ast.Expr) []*ast.Field {
	switch t := t.(type) {
	case *ast.StructType:
		return t.Fields.List
	case *ast.InterfaceType:
		return t.Methods.List
	}
	return nil
}

// says reports whether a text has a word.
func says(text, word string) bool {
	return regexp.MustCompile(`\b` + word + `\b`).MatchString(text)
}

func TestSurface_FindsIdentifiersWithoutAComment(t *testing.T) {
	t.Parallel()
	const src = `package a

// One and Two are numbers.
const (
	One = 1
	Two = 2
	Three = 3 // a number
	Four = 4
)

// A has F.
type A struct{ F, G int; h int }

type B interface{ M() }

// It does something.
func Bad() {}

// Good does something.
func Good() {}

func (a) Method() {}

func (*A) Method() {}
`
	s := newSurveyor(fstest.MapFS{"a/a.go": {Data: []byte(src)}})
	files, err := s.parse("a")
	testkit.Must(t, err)
	want := []string{"Four", "A.G", "B", "B.M", "Bad", "Method"}
	if got := undocumented(files); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
