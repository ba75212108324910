//go:build mutants

package mutants

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/stoatdb/stoat/internal/mutant"
)

// A harness is a small dose of one campaign.
type harness struct {
	name string
	only []mutant.Name // no other harness hunts these
	// others says that it also hunts each mutant that no harness has in only.
	others bool
	rounds int // in a hunt of a mutant in only; 0 is roundsUsual
	// run returns an error when it notices that a guarantee is missing. Its dose grows with
	// scale, which doubles from round to round.
	run func(seed uint64, scale int) error
}

// roundsUsual is the number of rounds of a hunt. Each round is twice the last, and few
// mutants live for three.
const roundsUsual = 6

// huntersOf returns the harnesses that hunt a mutant, and the number of their rounds. A
// harness was made to notice the mutants in only, and must do so without the help of the
// others. The others would take time before it.
func huntersOf(name mutant.Name, all []harness) (hunters []harness, rounds int) {
	for _, h := range all {
		if slices.Contains(h.only, name) {
			return []harness{h}, cmp.Or(h.rounds, roundsUsual)
		}
		if h.others {
			hunters = append(hunters, h)
		}
	}
	return hunters, roundsUsual
}

// env names the guarantee that a hunting process is to do without.
const env = "STOAT_TEST_MUTANT"

// hunt runs TestMutants_Hunt in another process, and returns what that prints. It returns
// an error unless the process has noticed the mutant. Without a mutant, the process must
// notice nothing. After 20 minutes it ends with a trace of its goroutines.
func hunt(name mutant.Name, seed uint64) (out string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(exe, "-test.run=^TestMutants_Hunt$", "-test.v", "-test.timeout=20m", fmt.Sprintf("-stoat.seed=%d", seed))
	cmd.Env = append(os.Environ(), env+"="+string(name)+".")
	printed, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	noticed, err := judge(string(printed), err != nil)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w:\n%s", err, printed)
	case noticed && name == "":
		return "", fmt.Errorf("a harness sees a bug where none was seeded:\n%s", printed)
	case !noticed && name != "":
		return "", fmt.Errorf("no harness noticed:\n%s", printed)
	}
	return string(printed), nil
}
