package report

import (
	"errors"
	"strings"
	"testing"
)

func TestSplice_ReplacesTheTextBetweenTheMarks(t *testing.T) {
	t.Parallel()
	document := "# Title\n\nbefore\n\n" + spliceBegin + "\nold\n" + spliceEnd + "\n\nafter\n"
	once, err := Splice([]byte(document), fullRecord(), "results/full.md")
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Splice(once, fullRecord(), "results/full.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(twice)
	if text != string(once) {
		t.Error("splicing again changes the document")
	}
	if strings.Contains(text, "\nold\n") || !strings.HasPrefix(text, "# Title\n\nbefore\n") || !strings.HasSuffix(text, "\nafter\n") {
		t.Errorf("the document around the marks is not kept: %.200s", text)
	}
	if !strings.Contains(text, "](results/full.md)") {
		t.Error("the document has no link to the full report")
	}
}

func TestSplice_NeedsBothMarks(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"", spliceBegin, spliceEnd, spliceEnd + spliceBegin} {
		if _, err := Splice([]byte(document), fullRecord(), "full.md"); !errors.Is(err, ErrNoMarks) {
			t.Errorf("%q: %v, want ErrNoMarks", document, err)
		}
	}
}
