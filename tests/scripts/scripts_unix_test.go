//go:build unix

package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// script runs one of the scripts of .ci with lines of ours in place of Go, and
// returns what it printed. They are a function that bash takes from the
// environment: a file that has just been written may be busy when it is to run.
func script(t *testing.T, name, standIn string, env []string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the scripts of .ci are for bash, which this system lacks:", err)
	}
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "fuzz_test.go"), []byte("func FuzzThing(f *testing.F) {\n"), 0o600))
	cmd := exec.Command("bash", append([]string{filepath.Join("..", "..", ".ci", name)}, args...)...)
	cmd.Env = append(append(os.Environ(), "GO=stand_in", "DIR="+dir, "BASH_FUNC_stand_in%%=() {"+standIn+"}"), env...)
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out)
}

func TestFuzzScript_PrintsTheLineThatReproduces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ printed, want string }{
		{"    Failing input written to testdata/fuzz/FuzzThing/7c67138a3f6dfbf7\n    To re-run:\n    go test -run=FuzzThing/7c67138a3f6dfbf7",
			"reproduce: go test -count=1 -tags invariants -run '^FuzzThing$/^7c67138a3f6dfbf7$' example/thing"},
		{"failure while testing seed corpus entry: FuzzThing/seed#3\n--- FAIL: FuzzThing (0.04s)",
			"reproduce: go test -count=1 -tags invariants -run '^FuzzThing$/^seed#3$' example/thing"},
		{"panic: in a goroutine of its own",
			"reproduce: go test -tags invariants -run '^$' -fuzz '^FuzzThing$' -fuzztime 3s example/thing"},
	} {
		out := script(t, "fuzz", `
if [ "$1" = list ]; then echo "example/thing $DIR/fuzz_test.go"; return; fi
echo "`+c.printed+`"
return 1
`, []string{"DURATION=3s"})
		if !strings.HasSuffix(out, "\n"+c.want+"\n") {
			t.Errorf("printed\n%swant at the end\n%s", out, c.want)
		}
	}
}

func TestTestScript_GivesTheSeedToPackagesThatTakeOne(t *testing.T) {
	t.Parallel()
	const goStandIn = `
if [ "$1" = list ]; then printf 'm/a\ttesting \nm/b\ttesting m/internal/testing/dose \nm/dose\ttesting \nm/c\t m/internal/testing/dose\n'; return; fi
echo "$@"
[ "$2" != fails ]
`
	for _, c := range []struct{ seed, flag, want string }{
		{"1", "-race", "test -race ./...\n"},
		{"9", "-race", "all tests, SEED=9\ntest -race m/a m/dose\ntest -race m/b m/c -args -stoat.seed=9\n"},
		{"9", "fails", "all tests, SEED=9\ntest fails m/a m/dose\ntest fails m/b m/c -args -stoat.seed=9\n"},
	} {
		if out := script(t, "test", goStandIn, []string{"SEED=" + c.seed}, c.flag); out != c.want {
			t.Errorf("seed %s: ran\n%swant\n%s", c.seed, out, c.want)
		}
	}
}
