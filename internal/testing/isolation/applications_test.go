package isolation

import (
	"strings"
	"testing"
)

const (
	playClients = 8
	playTxns    = 40
)

func TestApplications_HoldOnACorrectStore(t *testing.T) {
	t.Parallel()
	for _, a := range Applications() {
		t.Run(strings.ReplaceAll(a.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			conflicts, err := a.Play(newReference(noBug, Config{}), playClients, playTxns, 1)
			if err != nil {
				t.Error(err)
			}
			if conflicts == 0 {
				t.Error("no commit conflicted: the transactions did not overlap")
			}
		})
	}
}

// TestApplications_SeeBugs checks that each application finds the bug that it
// was made for.
func TestApplications_SeeBugs(t *testing.T) {
	t.Parallel()
	traps := map[string]bug{
		"doctors":         skipPointCheck,
		"doctors by scan": deletesUnchecked,
		"room booking":    phantomTail,
		"absent twins":    skipAbsentCheck,
		"unique names":    skipRangeCheck,
		"receipts":        skipPointCheck,
		"bank":            groupUnchecked,
		"counters":        firstCommitUnchecked,
		"queue":           skipLimitedRange,
		"black and white": skipPointCheck,
		"deposits":        skipRangeCheck,
	}
	for i, a := range Applications() {
		b, ok := traps[a.Name]
		if !ok {
			t.Errorf("no bug is named for %q", a.Name)
		}
		t.Run(strings.ReplaceAll(a.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(caughtWithin) {
				if _, err := Applications()[i].Play(newReference(b, Config{}), playClients, playTxns, seed); err != nil {
					return
				}
			}
			t.Errorf("%s did not see that %s", a.Name, b)
		})
	}
}
