package prose

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	recordName   = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	recordNumber = regexp.MustCompile(`(?i)\bdecision\s+(?://\s*)?(\d{4})\b`)
	relativeLink = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// brokenRecords returns what is wrong with the decision records of a tree: a
// gap in their numbers, a heading without the number, and a record that the
// index does not list by its title.
func brokenRecords(tree fs.FS) (broken []string, numbers map[string]bool) {
	numbers = map[string]bool{}
	index, _ := fs.ReadFile(tree, "docs/decisions/README.md") // an absent index lists nothing
	names, _ := fs.Glob(tree, "docs/decisions/*.md")          // the pattern is well formed
	for _, name := range names {
		base := path.Base(name)
		match := recordName.FindStringSubmatch(base)
		if match == nil {
			if base != "README.md" {
				broken = append(broken, name+" is not named NNNN-title.md")
			}
			continue
		}
		if want := fmt.Sprintf("%04d", len(numbers)+1); match[1] != want {
			broken = append(broken, name+" should have number "+want)
		}
		numbers[match[1]] = true
		src, _ := fs.ReadFile(tree, name) // an unreadable record has no heading
		heading, _, _ := strings.Cut(string(src), "\n")
		title, found := strings.CutPrefix(heading, "# "+match[1]+" ")
		if !found {
			broken = append(broken, name+" does not begin with # "+match[1])
		}
		if !strings.Contains(string(index), fmt.Sprintf("| [%s](%s) | %s |", match[1], base, title)) {
			broken = append(broken, name+" is not in the index under its title")
		}
	}
	return broken, numbers
}

// brokenReferences returns the references of Go files and documents to
// decision records that do not exist, and the relative links of documents that
// lead nowhere.
func brokenReferences(tree fs.FS, numbers map[string]bool) (broken []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".md"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, match := range recordNumber.FindAllStringSubmatch(string(src), -1) {
			if !numbers[match[1]] && !strings.HasSuffix(name, "documents_test.go") {
				broken = append(broken, name+" names decision "+match[1]+", which does not exist")
			}
		}
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		for _, match := range relativeLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(string(src), ""), -1) {
			target := path.Join(path.Dir(name), match[1])
			if _, err := fs.Stat(tree, target); err != nil {
				broken = append(broken, name+" links to "+target+", which does not exist")
			}
		}
		return nil
	})
	return broken, err
}

// TestDocuments_RecordsAndLinksAreWhole checks the documents of the tree that
// this package belongs to.
func TestDocuments_RecordsAndLinksAreWhole(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(filepath.Join("..", "..", ".."))
	if _, err := fs.Stat(tree, "bench/go.mod"); err != nil {
		t.Skip("this is not the whole tree: a downloaded module lacks the modules below it")
	}
	broken, numbers := brokenRecords(tree)
	if len(numbers) == 0 {
		t.Error("there are no decision records")
	}
	references, err := brokenReferences(tree, numbers)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(broken, references...) {
		t.Error(b)
	}
}

func TestDocuments_FaultsAreFound(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"docs/decisions/README.md":      {Data: []byte("| [0001](0001-first.md) | First |\n| [0003](0003-third.md) | Other |\n")},
		"docs/decisions/0001-first.md":  {Data: []byte("# 0001 First\n[index](README.md#top), [far](https://example.org/x)\n")},
		"docs/decisions/0003-third.md":  {Data: []byte("# 0003 Third\n[gone](0002-gone.md), `[code](nowhere)`\n")},
		"docs/decisions/0004_Fourth.md": {Data: []byte("# 0004\n")},
		"a.go":                          {Data: []byte("package a\n\n// See decision\n// 0009.\n// Decision 0001.\n")},
	}
	broken, numbers := brokenRecords(tree)
	if len(broken) != 3 { // the gap, the title in the index, the name
		t.Errorf("records: %q", broken)
	}
	references, err := brokenReferences(tree, numbers)
	if err != nil || len(references) != 2 { // decision 0009, the link to 0002
		t.Errorf("references: %q, %v", references, err)
	}
}

var (
	rankInCode     = regexp.MustCompile(`return (\d+), "([a-z]+)"`)
	rankInDocument = regexp.MustCompile(`(?m)^\| (\d+) \| ([a-z]+) \|`)
)

// TestDocuments_LockTableHasTheRanksOfTheCode compares the table of locks in the
// architecture with internal/lock.
func TestDocuments_LockTableHasTheRanksOfTheCode(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(filepath.Join("..", "..", ".."))
	read := func(name string, row *regexp.Regexp) map[string]string {
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		ranks := map[string]string{}
		for _, match := range row.FindAllStringSubmatch(string(src), -1) {
			ranks[match[2]] = match[1]
		}
		return ranks
	}
	code, document := read("internal/lock/ranks.go", rankInCode), read("docs/architecture.md", rankInDocument)
	if len(code) == 0 {
		t.Fatal("no ranks in internal/lock/ranks.go")
	}
	for name, rank := range code {
		if document[name] != rank {
			t.Errorf("docs/architecture.md gives %s the rank %q, the code %s", name, document[name], rank)
		}
	}
	for name := range document {
		if code[name] == "" {
			t.Errorf("docs/architecture.md has a lock %s that the code does not have", name)
		}
	}
}
