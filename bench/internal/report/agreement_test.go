package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// recordOfGets makes a record of a day with gets of stoat and of lmdb, which takes 1,000 ns.
func recordOfGets(day int, ours ...float64) *comparison.Record {
	peer := make([]float64, len(ours))
	for i := range peer {
		peer[i] = 1000
	}
	rec := record(append(gets("stoat", ours...), gets("lmdb", peer...)...)...)
	rec.Settings.Began = time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)
	return rec
}

func agreementOf(t *testing.T, earlier, later *comparison.Record) string {
	t.Helper()
	var out strings.Builder
	if err := Agreement(&out, earlier, later); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAgreement_NamesTheTargetsOnWhichTwoRunsContradictEachOther(t *testing.T) {
	t.Parallel()
	met, missed := recordOfGets(1, 300, 301, 302), recordOfGets(2, 700, 701, 702)
	for _, c := range []struct {
		earlier, later *comparison.Record
		want           string
	}{
		{met, missed, "get, 1 goroutine, ns (63 % hits). met: 0.30 × lmdb (0.30 to 0.30), then missed: 0.70 × lmdb (0.70 to 0.70).\n"},
		{missed, met, "get, 1 goroutine, ns (63 % hits). missed: 0.70 × lmdb (0.70 to 0.70), then met: 0.30 × lmdb (0.30 to 0.30).\n"},
	} {
		if got := agreementOf(t, c.earlier, c.later); !strings.Contains(got, c.want) {
			t.Errorf("the page lacks %q:\n%s", c.want, got)
		}
	}
}

func TestAgreement_AnUndecidedVerdictContradictsNone(t *testing.T) {
	t.Parallel()
	const none = "No target is met in one run and missed in the other.\n"
	met, missed, open := recordOfGets(1, 300, 301, 302), recordOfGets(1, 700, 701, 702), recordOfGets(2, 300, 500, 700)
	for name, earlier := range map[string]*comparison.Record{"met": met, "missed": missed} {
		got := agreementOf(t, earlier, open)
		if !strings.Contains(got, none) {
			t.Errorf("%s and undecided contradict each other:\n%s", name, got)
		}
		if want := "| " + name + " | 0 | 0 | 1 | 0 |\n"; !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

func TestAgreement_ShowsTheFiguresSideBySide(t *testing.T) {
	t.Parallel()
	got := agreementOf(t, recordOfGets(1, 300, 301, 302), recordOfGets(2, 400))
	for _, want := range []string{
		"# The runs of 2026-01-01 and 2026-01-02\n",
		"| get, 1 goroutine, ns (63 % hits) | ≤ 0.5 × peer | 0.30 × lmdb (0.30 to 0.30) | met | 0.40 × lmdb | undecided |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "16 goroutines") {
		t.Errorf("the page has a row that no run measured:\n%s", got)
	}
}
