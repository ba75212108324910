package report

import (
	"errors"
	"strings"
	"testing"
)

func TestSpliceReplacesWhatIsBetweenTheMarks(t *testing.T) {
	t.Parallel()
	document := "# Title\n\nbefore\n\n" + spliceBegin + "\nold\n" + spliceEnd + "\n\nafter\n"
	once, err := Splice([]byte(document), fullRecord())
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Splice(once, fullRecord())
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
	if !strings.Contains(text, "\n## Comparison of ") || !strings.Contains(text, "\n### 1 KiB × 1 M\n") {
		t.Error("the headings have not gone down by a level")
	}
}

func TestSpliceNeedsBothMarks(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"", spliceBegin, spliceEnd, spliceEnd + spliceBegin} {
		if _, err := Splice([]byte(document), fullRecord()); !errors.Is(err, ErrNoMarks) {
			t.Errorf("%q: %v, want ErrNoMarks", document, err)
		}
	}
}
