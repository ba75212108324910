// Command guard fails if stoat has become slower since the last recorded commit.
// It builds that commit in a temporary worktree, and runs both programs in turns
// on stoat's own rows. It can also compare stoat with encryption to stoat without.
//
//	guard                  compare with the commit in results/guard-base.txt
//	guard -base HEAD~3     compare with another commit
//	guard -encrypted       fail if encryption costs more than its limits
//	guard -only get,128    measure some workloads and datasets
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stoatdb/stoat/bench/internal/guard"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

// baseFile names the commit to compare with, relative to the module.
const baseFile = "results/guard-base.txt"

type flags struct {
	base      string
	encrypted bool
	only      string
	dir       string
	scale     float64
	budget    time.Duration
	rounds    int
}

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("guard", flag.ContinueOnError)
	set.StringVar(&f.base, "base", "", "compare with this `commit` (default the one in "+baseFile+")")
	set.BoolVar(&f.encrypted, "encrypted", false, "compare stoat with encryption to stoat without, both of this tree")
	set.StringVar(&f.only, "only", "", "measure only these `names` of workloads and datasets, separated by commas, and the loads they need")
	set.StringVar(&f.dir, "dir", "", "create the databases and programs below this `directory` (default the system's temporary directory)")
	set.Float64Var(&f.scale, "scale", 0.1, "use this `share` of the full number of keys")
	set.DurationVar(&f.budget, "budget", 30*time.Minute, "begin no round after this `time`")
	set.IntVar(&f.rounds, "rounds", guard.DefaultRounds, "measure everything in this `number` of rounds; rows that stay open get more")
	return f, set.Parse(args)
}

// errSlower says that a row is a loss.
var errSlower = errors.New("a row costs more than its limit")

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(f.dir, "stoat-guard-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g := guard.Guard{Dir: dir, Scale: f.scale, Out: out, Rounds: f.rounds, RoundsMax: 3 * f.rounds, Deadline: time.Now().Add(f.budget)}
	side := guard.Side{Program: filepath.Join(dir, "new"), Store: "stoat"}
	if err := build(ctx, ".", side.Program); err != nil {
		return err
	}
	than := "without encryption"
	g.Old, g.New = side, side
	if f.encrypted {
		g.New.Store = stores.StoatEncrypted
		g.Jobs, g.Rule = guard.EncryptedJobs(), guard.EncryptedRule
	} else {
		g.Old.Program = filepath.Join(dir, "old")
		g.Jobs, g.Rule = guard.RevisionJobs, guard.DefaultRule
		if than, err = f.buildBase(ctx, dir, g.Old.Program, out); err != nil {
			return err
		}
	}
	g.Jobs = guard.Only(g.Jobs, strings.FieldsFunc(f.only, func(r rune) bool { return r == ',' || r == ' ' }))
	if len(g.Jobs) == 0 {
		return fmt.Errorf("%q leaves nothing to measure", f.only)
	}
	all, err := g.Run(ctx)
	if err != nil {
		return err
	}
	return report(out, than, all)
}

// buildBase builds the commit to compare with, and says which one it is.
func (f flags) buildBase(ctx context.Context, dir, program string, out io.Writer) (than string, err error) {
	if f.base == "" {
		if f.base, err = readBase(baseFile); err != nil {
			return "", err
		}
	}
	return "at " + f.base, buildBase(ctx, f.base, dir, program, out)
}

// readBase returns the commit that a file names.
func readBase(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return "", fmt.Errorf("%s names no commit", path)
	}
	return words[0], nil
}

// report writes all rows, and returns an error if one is a loss.
func report(out io.Writer, than string, all []guard.Judgement) error {
	fmt.Fprintf(out, "cost now, as a share of that %s:\n", than)
	undecided := 0
	for _, j := range all {
		if math.IsNaN(j.Ratio) {
			continue // a cost of zero has no ratio
		}
		if j.Verdict == guard.Undecided {
			undecided++
		}
		fmt.Fprintf(out, "  %-45s %.3f  (%.3f to %.3f, %d rounds)  %s\n",
			j.Row.Name, j.Ratio, j.Interval.Low, j.Interval.High, len(j.Row.Old), j.Verdict)
	}
	losses := guard.Losses(all)
	if losses == nil {
		fmt.Fprintf(out, "no row certainly costs more than its limit; %d of %d are undecided\n", undecided, len(all))
		return nil
	}
	var names []string
	for _, j := range losses {
		names = append(names, fmt.Sprintf("%s by %.1f %%", j.Row.Name, 100*(j.Ratio-1)))
	}
	return fmt.Errorf("%w: %s", errSlower, strings.Join(names, ", "))
}

// buildBase builds the compare command at a commit. It puts today's comparison
// beside stoat of that commit, so that both programs measure in the same way. If
// that stoat lacks a call, it uses the comparison of that commit.
func buildBase(ctx context.Context, base, dir, program string, out io.Writer) (err error) {
	tree := filepath.Join(dir, "base")
	if err := command(ctx, ".", "git", "worktree", "add", "--quiet", "--detach", tree, base); err != nil {
		return err
	}
	// The removal must also happen after an interruption.
	defer func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", tree))
	}()
	theirs := filepath.Join(tree, "bench")
	if err := replaceModule(theirs); err != nil {
		return err
	}
	if err := build(ctx, theirs, program); err == nil {
		return nil
	}
	fmt.Fprintf(out, "%s does not build with today's comparison; its own is used\n", base)
	if err := os.RemoveAll(theirs); err != nil {
		return err
	}
	if err := command(ctx, tree, "git", "checkout", "--quiet", "--", "bench"); err != nil {
		return err
	}
	return build(ctx, theirs, program)
}

// replaceModule replaces the module at dir by this one, without its results.
func replaceModule(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, part := range []string{"cmd", "internal"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(part)); err != nil {
			return err
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// build builds the compare command of the module at dir, without the stores in
// C.
func build(ctx context.Context, dir, program string) error {
	return command(ctx, dir, "go", "build", "-o", program, "./cmd/compare")
}

// command runs a command, and adds its output to the error.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(string(text)))
	}
	return nil
}
