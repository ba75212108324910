package prose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// A Survey has the findings of a tree.
type Survey struct {
	CommentWords  []Finding
	DocumentWords []Finding
	LongSentences []Finding
}

// A Finding is one word of dialect or one long sentence.
type Finding struct {
	File string
	// Line is the line of the comment or paragraph that has the finding.
	Line int
	Text string
}

// String returns the finding as file:line: text.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// Take reads every Go file and every Markdown document of tree, those of
// nested modules included. It skips testdata, vendor, directories whose name
// begins with a dot or an underscore, and results: a recorded run stays as it
// was written.
func Take(tree fs.FS) (*Survey, error) {
	s := &Survey{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if skipped(name) {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(name, ".go"):
			return s.readGo(tree, name)
		case strings.HasSuffix(name, ".md"):
			return s.readDocument(tree, name)
		}
		return nil
	})
	return s, err
}

// skipped reports whether the survey passes over a directory.
func skipped(dir string) bool {
	base := path.Base(dir)
	return dir != "." && (base == "testdata" || base == "vendor" || base == "results" || base[0] == '.' || base[0] == '_')
}

func (s *Survey) readDocument(tree fs.FS, name string) error {
	src, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	for _, p := range paragraphsOfMarkdown(string(src)) {
		for _, word := range dialect(p.text) {
			s.DocumentWords = append(s.DocumentWords, Finding{name, p.line, word})
		}
		if p.table {
			continue
		}
		for _, sentence := range longSentences(p.text) {
			s.LongSentences = append(s.LongSentences, Finding{name, p.line, sentence})
		}
	}
	return nil
}

func (s *Survey) readGo(tree fs.FS, name string) error {
	src, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, src, parser.ParseComments)
	if err != nil {
		return err
	}
	line := func(n ast.Node) int { return positions.Position(n.Pos()).Line }
	for _, group := range file.Comments {
		for _, word := range dialect(group.Text()) {
			s.CommentWords = append(s.CommentWords, Finding{name, line(group), word})
		}
	}
	if strings.HasSuffix(name, "_test.go") {
		return nil // documentation of tests is for their readers alone
	}
	for _, doc := range exportedDocs(file) {
		for _, p := range paragraphsOfComment(doc.Text()) {
			for _, sentence := range longSentences(p.text) {
				s.LongSentences = append(s.LongSentences, Finding{name, line(doc) + p.line - 1, sentence})
			}
		}
	}
	return nil
}

// exportedDocs returns the documentation of the package and of every exported identifier of
// a file. Identifiers are functions, methods, types, constants, variables, and the fields
// and methods of types.
func exportedDocs(file *ast.File) []*ast.CommentGroup {
	var docs []*ast.CommentGroup
	add := func(exported bool, groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if exported && g != nil {
				docs = append(docs, g)
			}
		}
	}
	add(true, file.Doc)
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			add(d.Name.IsExported() && exportedReceiver(d), d.Doc)
		case *ast.GenDecl:
			visible := false
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					visible = visible || s.Name.IsExported()
					add(s.Name.IsExported(), s.Doc, s.Comment)
					if s.Name.IsExported() {
						members(s.Type, add)
					}
				case *ast.ValueSpec:
					exported := anyExported(s.Names)
					visible = visible || exported
					add(exported, s.Doc, s.Comment)
				}
			}
			add(visible, d.Doc)
		}
	}
	return docs
}

// members adds the documentation of the exported fields and methods of a type.
func members(t ast.Expr, add func(bool, ...*ast.CommentGroup)) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, f := range list.List {
		add(anyExported(f.Names), f.Doc, f.Comment)
	}
}

func anyExported(names []*ast.Ident) bool {
	for _, n := range names {
		if n.IsExported() {
			return true
		}
	}
	return false
}

// exportedReceiver reports whether f is a function, or a method of an exported
// type.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return true
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
