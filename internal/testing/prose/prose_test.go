package prose

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestProse_TreeHasNoFindings surveys the tree that this package belongs to.
func TestProse_TreeHasNoFindings(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(filepath.Join("..", "..", ".."))
	if _, err := fs.Stat(tree, "bench/go.mod"); err != nil {
		t.Skip("this is not the whole tree: a downloaded module lacks the modules below it")
	}
	survey, err := Take(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Concat(survey.CommentWords, survey.DocumentWords, survey.LongSentences) {
		t.Error(f)
	}
}

func TestDialect_WholeWordsInAnyCaseOutsideOfCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"Who writes, and whoever reads":        2,
		"Nobody knows what somebody does":      2,
		"tried in\nvain, by the  work\nbehind": 2,
		"`nobody` is a word":                   0,
		"the whole of it, and whom":            0,
		"invain, the works behind":             0,
	} {
		if got := dialect(text); len(got) != want {
			t.Errorf("%q: %d findings, want %d: %q", text, len(got), want, got)
		}
	}
}

func TestLongSentences_EndAtFullStops(t *testing.T) {
	t.Parallel()
	of := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for _, c := range []struct {
		text string
		want int
	}{
		{of(25) + ".", 0},
		{of(26) + ".", 1},
		{of(26), 1},
		{of(20) + ". " + of(20) + "? " + of(20) + "!", 0},
		{of(20) + ".) " + of(20), 0},
		{of(20) + " 3.5 " + of(20), 1},
		{of(24) + " `a b c` — .", 0},
		{of(24) + " [a](b c d)", 0},
		{of(5) + ". " + of(40) + ". " + of(40), 2},
	} {
		if got := longSentences(c.text); len(got) != c.want {
			t.Errorf("%q: %q, want %d", c.text, got, c.want)
		}
	}
}

func TestParagraphs_OfADocument(t *testing.T) {
	t.Parallel()
	const document = `# Heading
first
paragraph

- an item
  of two lines

  and its paragraph
- another
1. a number

| a | table |
|---|---|

    indented code

` + "```sh\nfenced code\n```\nlast\n"
	want := []paragraph{
		{"# Heading", 1, false},
		{"first paragraph", 2, false},
		{"an item of two lines", 5, false},
		{"and its paragraph", 8, false},
		{"another", 9, false},
		{"a number", 10, false},
		{"| a | table |", 12, true},
		{"|---|---|", 13, true},
		{"indented code", 15, false}, // it still belongs to the list
		{"last", 20, false},
	}
	if got := paragraphsOfMarkdown(document); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := paragraphsOfMarkdown("text\n\n\tcode\n"); len(got) != 1 {
		t.Errorf("indented code is a paragraph: %+v", got)
	}
}

func TestParagraphs_OfAComment(t *testing.T) {
	t.Parallel()
	got := paragraphsOfComment("one\ntwo\n\n\tcode\n\n  - item\n    goes on\n\nthree\n")
	want := []paragraph{{"one two", 1, false}, {"item goes on", 6, false}, {"three", 9, false}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSurvey_FindsWhatItShould(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 31)
	survey, err := Take(fstest.MapFS{
		"a.go":            {Data: []byte("package a\n\n// Exported " + long + "\nfunc Exported() {} // who\n\n// hidden " + long + "\nfunc hidden() {}\n")},
		"b.go":            {Data: []byte("package a\n\ntype T struct {\n\t// F " + long + "\n\tF int\n\t// g " + long + "\n\tg int\n}\n\n// M " + long + "\nfunc (t *T) M() {}\n\n// M " + long + "\nfunc (u) M() {}\n")},
		"a_test.go":       {Data: []byte("package a\n\n// TestA " + long + " in vain\nfunc TestA() {}\n")},
		"nested/go.mod":   {},
		"nested/n.go":     {Data: []byte("package n\n\nvar s = \"who\" // whoever\n")},
		"doc.md":          {Data: []byte("nobody\n\n| somebody | " + long + " |\n\n" + long + "\n")},
		"testdata/bad.go": {Data: []byte("package // who")},
		".hidden/bad.md":  {Data: []byte("who")},
		"results/run.md":  {Data: []byte("who")},
		"_old/bad.md":     {Data: []byte("who")},
		"notes.txt":       {Data: []byte("who")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		got  []Finding
		want []string
	}{
		{"comments", survey.CommentWords, []string{"a.go:4", "a_test.go:3", "nested/n.go:3"}},
		{"documents", survey.DocumentWords, []string{"doc.md:1", "doc.md:3"}},
		{"sentences", survey.LongSentences, []string{"a.go:3", "b.go:10", "b.go:4", "doc.md:5"}},
	} {
		var got []string
		for _, f := range c.got {
			place, _, _ := strings.Cut(f.String(), ": ")
			got = append(got, place)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSurvey_AFileThatDoesNotParseIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := Take(fstest.MapFS{"a.go": {Data: []byte("package")}}); err == nil {
		t.Error("a file that does not parse passed")
	}
}
