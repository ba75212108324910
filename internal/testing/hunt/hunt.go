//go:build mutants

package hunt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/testing/dose"
)

// A Harness is a small dose of one campaign.
type Harness struct {
	Name string
	// Run returns an error when it notices that a guarantee is missing. Its dose
	// grows with scale, which doubles from round to round.
	Run func(seed uint64, scale int) error
	// Asked: the harness hunts only the mutants that onlyBy gives to it.
	Asked bool
}

// The names of the harnesses that onlyBy gives mutants to.
const (
	Bits      = "bits"
	Salvage   = "salvage"
	Repairs   = "repairs"
	Faults    = "faults"
	Filters   = "filters"
	Even      = "even keys"
	Aging     = "passing time"
	Ages      = "ages of snapshots"
	Schedules = "schedules"
	Isolation = "isolation"
	Turns     = "updates that take turns"
	Nonces    = "nonces"
	Batches   = "batches"
	Backups   = "backups"
	Files     = "file backups"
	Trees     = "keys as files"
	Drops     = "drops of keyspaces"
	Queues    = "queues"
	Feeds     = "feeds"
	Followers = "followers"
	Ingests   = "ingests"
	Ahead     = "syncs ahead"
	Pending   = "full segments"
	Crowds    = "crowded memory"
	Reads     = "reads"
	Processes = "ends of processes"
	Mixture   = "mixture"
	Bounds    = "bounds"
	// Resurrection is the harness that must see a deleted key again.
	Resurrection = "resurrected keys"
)

// onlyBy names the one harness that hunts a mutant. That harness was made to notice
// such a mutant, and must do so without the help of the others. The others would
// only take time before it. A mutant without an entry is hunted by all harnesses of
// tests/mutants in turn.
var onlyBy = map[mutant.Name]string{
	mutant.NoPoison:          Faults,
	mutant.RetrySync:         Faults,
	mutant.SwallowFlushError: Faults,

	mutant.PassUndecided: Even,
	mutant.PlainVersions: Even,
	mutant.PlainRounds:   Even,
	mutant.PlainExpiring: Even,

	mutant.FilterUncovers:  Filters,
	mutant.FilterLosesMeta: Filters,

	mutant.ForgetDefaultTTL:  Aging,
	mutant.KeepDataKey:       Aging,
	mutant.KeepMasterKey:     Aging,
	mutant.KeepLogKey:        Aging,
	mutant.RotateForgetsKeys: Aging,

	mutant.ExpiredBegins:  Ages,
	mutant.ExpiredReadsOn: Ages,
	mutant.ExpiredHolds:   Ages,

	mutant.IgnoreDurableMark:  Bits,
	mutant.IgnoreSeal:         Bits,
	mutant.IgnoreUnreferenced: Bits,

	mutant.FoldVisible:       Isolation,
	mutant.FoldTwice:         Isolation,
	mutant.StampReadsPast:    Isolation,
	mutant.StampPurgeUnread:  Isolation,
	mutant.StampTablesUnread: Isolation,
	mutant.SalvageNoSum:      Salvage,
	mutant.SalvageToDamage:   Salvage,

	mutant.RepairUncounted:   Repairs,
	mutant.RepairLosesLast:   Repairs,
	mutant.RepairShiftsTwice: Repairs,

	mutant.NoBarrier:        Schedules,
	mutant.UnconfirmedView:  Schedules,
	mutant.UntoldState:      Schedules,
	mutant.ForgetSnapshots:  Schedules,
	mutant.FlushUnpublished: Schedules,
	mutant.CollectHeld:      Schedules,
	mutant.DropNeededBase:   Schedules,
	mutant.RenewExpired:     Schedules,
	mutant.StaleSteps:       Schedules,
	mutant.EarlyDiscard:     Schedules,
	mutant.DeleteTwice:      Schedules,

	mutant.FrameNonce:     Nonces,
	mutant.PageNonce:      Nonces,
	mutant.PagePosition:   Nonces,
	mutant.SameFileKey:    Nonces,
	mutant.ContinueSealed: Nonces,

	mutant.BackupForgets:     Backups,
	mutant.BackupUnfiltered:  Backups,
	mutant.BackupUncovered:   Backups,
	mutant.RestoreResurrects: Backups,
	mutant.RestoreUnfinished: Backups,
	mutant.RestoreSkipsAhead: Backups,
	mutant.RestoreForeign:    Backups,

	mutant.FileByName:     Files,
	mutant.FileUnverified: Files,
	mutant.FilePruned:     Files,
	mutant.PruneNewest:    Files,
	mutant.PruneUnread:    Files,
	mutant.SortedCut:      Files,

	mutant.FileBesideDirectory: Trees,
	mutant.FileNeighbour:       Trees,
	mutant.FileEndsEarly:       Trees,

	mutant.WriteBack: Resurrection,

	mutant.BatchSkipsSync: Batches,

	mutant.EarlyResult:    Turns,
	mutant.EarlyRead:      Turns,
	mutant.EarlyOutlives:  Turns,
	mutant.EarlyUnchecked: Isolation,

	mutant.SyncAheadTooFar: Ahead,
	mutant.SyncAheadFails:  Ahead,

	mutant.SyncOvertakes:      Pending,
	mutant.ClaimsEarly:        Pending,
	mutant.CarryLosesSegments: Pending,

	mutant.RelayLosesLast:  Ingests,
	mutant.RelayLosesError: Ingests,
	mutant.RelayBorrows:    Ingests,

	mutant.HintTrusted: Crowds,

	mutant.PrivateWindow: Processes,

	mutant.EditOvertakes: Mixture,

	mutant.StreamBorderTwice:    Reads,
	mutant.StreamBeforeDeletion: Reads,
	mutant.StreamUnordered:      Reads,
	mutant.StreamSinceSkips:     Reads,
	mutant.EstimateTablesOnly:   Reads,
	mutant.EstimateFirstLevel:   Reads,
	mutant.SplitRepeats:         Reads,
	mutant.SequenceBuffered:     Reads,
	mutant.SequenceReturnsOld:   Reads,

	mutant.FeedSkip:          Feeds,
	mutant.FeedTwice:         Feeds,
	mutant.FeedHalf:          Feeds,
	mutant.FeedNoRanges:      Feeds,
	mutant.FeedNoDrops:       Feeds,
	mutant.FeedRangeBefore:   Feeds,
	mutant.FeedForeignRange:  Feeds,
	mutant.FeedNoPrefix:      Feeds,
	mutant.FeedGap:           Feeds,
	mutant.FeedForget:        Feeds,
	mutant.FeedLoseValues:    Feeds,
	mutant.FeedUnsynced:      Feeds,
	mutant.FeedUnsyncedFlush: Feeds,

	mutant.FeedFollowsUnsynced: Feeds,
	mutant.FeedFollowsGap:      Feeds,
	mutant.FeedFollowsValues:   Feeds,

	mutant.GapPassesNewer: Queues,
	mutant.GapHidesLater:  Queues,
	mutant.GapTooNew:      Queues,
	mutant.GapTooEarly:    Queues,
	mutant.GapOfOwn:       Queues,
	mutant.GapGrowsOver:   Queues,
	mutant.FollowHalf:     Followers,
	mutant.FollowLogOnly:  Followers,
	mutant.FollowTwice:    Followers,
	mutant.FollowBlind:    Followers,
	mutant.FollowOldSpan:  Followers,
	mutant.FollowLazy:     Followers,
	mutant.FollowUnsynced: Followers,

	mutant.CheckpointTablesOnly: Followers,

	mutant.FollowUndamaged:  Followers,
	mutant.FollowFirstSpan:  Followers,
	mutant.FollowChecksOnce: Followers,

	mutant.CollectNothing: Mixture,
	mutant.KeepExpired:    Mixture,
	mutant.KeepReplaced:   Mixture,
	mutant.KeepGarbage:    Bounds,
	mutant.KeepDiscarded:  Bounds,
	mutant.KeepMemtables:  Bounds,
	mutant.KeepLog:        Bounds,
	mutant.IgnoreFull:     Bounds,
	mutant.IgnoreBudget:   Bounds,

	mutant.DropWithoutTombstone: Drops,
	mutant.DropSeenEarly:        Drops,
	mutant.ForgetEarly:          Drops,
}

// env names the guarantee that a hunting process is to do without.
const env = "STOAT_TEST_MUTANT"

// patience is how many times as long as the control a hunt may take. A hunt that notices
// nothing takes at most 63 times as long, because each of its six rounds is twice the last. It
// runs beside other hunts, but has only a part of the harnesses of the control. The nine rounds
// of isolation repeat a small part 511 times.
const patience = 100

// All hunts the mutants that onlyBy gives to these harnesses. Each mutant has a process of
// its own, which runs the test named child. A mutant may panic in a goroutine of the
// database, and then ends only its process. The control is a process without a mutant. It
// must notice nothing.
func All(t *testing.T, child string, harnesses []Harness) {
	seed := dose.Seed(t)
	dose.Reproduce(t, "mutants")
	for _, name := range mutant.Names {
		if only := onlyBy[name]; only != "" && !hunts(harnesses, only) {
			t.Errorf("%s is for the harness %q, which does not exist", name, only)
		}
	}
	var limit time.Duration // 0 is none
	controlled := t.Run("none", func(t *testing.T) {
		started := time.Now()
		if noticed, how := inProcess(t, child, "", seed, 0); noticed {
			t.Errorf("a harness sees a bug where none was seeded:\n%s", how)
		}
		limit = patience * time.Since(started)
	})
	if !controlled {
		return
	}
	for _, name := range mutant.Names {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			noticed, how := inProcess(t, child, name, seed, limit)
			if !noticed {
				t.Fatalf("no harness noticed:\n%s", how)
			}
			t.Logf("%.1f s: %.500s", time.Since(started).Seconds(), how)
		})
	}
}

func hunts(harnesses []Harness, only string) bool {
	return slices.ContainsFunc(harnesses, func(h Harness) bool { return h.Name == only })
}

// inProcess runs the test child in another process and reports whether that noticed the
// mutant. After limit the process ends with a trace of its goroutines.
func inProcess(t *testing.T, child string, name mutant.Name, seed uint64, limit time.Duration) (noticed bool, how string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+child+"$", "-test.v", "-test.timeout="+limit.String(), fmt.Sprintf("-stoat.seed=%d", seed))
	cmd.Env = append(os.Environ(), env+"="+string(name)+".")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	noticed, wrong := judge(string(out), err != nil)
	if wrong != nil {
		t.Fatalf("%v:\n%s", wrong, out)
	}
	return noticed, string(out)
}

// One is the body of the test that All runs in processes of its own. It fails when a
// harness notices.
func One(t *testing.T, harnesses []Harness) {
	name, hunting := strings.CutSuffix(os.Getenv(env), ".")
	if !hunting {
		t.Skip("TestMutants runs this in a process of its own")
	}
	seed := dose.Seed(t)
	only := onlyBy[mutant.Name(name)]
	restore, rounds := func() int64 { return 1 }, 1
	if name != "" { // each round is twice the last, and few mutants live for three
		restore, rounds = mutant.Enable(mutant.Name(name)), 6
	}
	if only == Isolation { // its rounds are quick, and some mutants need a rare one
		rounds = 9
	}
	for round := range rounds {
		for _, h := range harnesses {
			if only != h.Name && (only != "" || h.Asked && name != "") {
				continue
			}
			if err := run(h, seed+uint64(round), 1<<round); err != nil {
				t.Fatalf("%s: %s, round %d: %v", found, h.Name, round, err)
			}
		}
	}
	if restore() == 0 {
		t.Fatal(notReached)
	}
}

// run turns a panic of a harness into an error.
func run(h Harness, seed uint64, scale int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 16<<10)
			err = fmt.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	return h.Run(seed, scale)
}
