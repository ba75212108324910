//go:build mutants

package mutants

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/isolation"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	backuptest "github.com/stoatdb/stoat/tests/backup"
	"github.com/stoatdb/stoat/tests/bits"
	"github.com/stoatdb/stoat/tests/crash"
	"github.com/stoatdb/stoat/tests/faults"
	feedtest "github.com/stoatdb/stoat/tests/feed"
	followtest "github.com/stoatdb/stoat/tests/follow"
	isolationtest "github.com/stoatdb/stoat/tests/isolation"
	"github.com/stoatdb/stoat/tests/kill"
	"github.com/stoatdb/stoat/tests/mixture"
	modeltest "github.com/stoatdb/stoat/tests/model"
	readstest "github.com/stoatdb/stoat/tests/reads"
	"github.com/stoatdb/stoat/tests/schedules"
	"github.com/stoatdb/stoat/tests/stress"
	timestampstest "github.com/stoatdb/stoat/tests/timestamps"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// TestMutants removes one guarantee of the engine at a time and demands that some
// campaign notices. Each mutant has a process of its own, which runs TestMutants_Hunt. A
// mutant may panic in a goroutine of the database, and then ends only its process. The
// control is a process without a mutant. It must notice nothing.
func TestMutants(t *testing.T) {
	seed := dose.Seed(t)
	dose.Reproduce(t, "mutants")
	hunter := map[mutant.Name]string{}
	for _, h := range harnesses(t) {
		for _, name := range h.only {
			if hunter[name] != "" {
				t.Errorf("%s is only for the harness %q, and only for %q", name, hunter[name], h.name)
			}
			hunter[name] = h.name
		}
	}
	const control = mutant.Name("")
	for _, name := range slices.Concat([]mutant.Name{control}, mutant.Names) {
		t.Run(cmp.Or(string(name), "none"), func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			how, err := hunt(name, seed)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.1f s: %.500s", time.Since(started).Seconds(), how)
		})
	}
}

// TestMutants_Hunt is one hunt of TestMutants. It fails when a harness notices.
func TestMutants_Hunt(t *testing.T) {
	name, hunting := strings.CutSuffix(os.Getenv(env), ".")
	if !hunting {
		t.Skip("TestMutants runs this in a process of its own")
	}
	seed := dose.Seed(t)
	hunters, rounds, restore := harnesses(t), 1, func() int64 { return 1 }
	if name != "" {
		hunters, rounds = huntersOf(mutant.Name(name), hunters)
		restore = mutant.Enable(mutant.Name(name))
	}
	for round := range rounds {
		for _, h := range hunters {
			err := testkit.CatchPanic(func() error { return h.run(seed+uint64(round), 1<<round) })
			if err != nil {
				t.Fatalf("%s: %s, round %d: %v", found, h.name, round, err)
			}
		}
	}
	if restore() == 0 {
		t.Fatal(notReached)
	}
}

// harnesses returns a small dose of each campaign.
func harnesses(t *testing.T) []harness {
	// The images and the scenes are made when they are needed, and then without the
	// guarantee as well.
	images := sync.OnceValue(func() []*bits.Image { return bits.Images(t) })
	scenes := sync.OnceValue(func() []*faults.Scene { return faults.Scenes(t) })
	return []harness{
		{name: "model", others: true, run: func(seed uint64, scale int) error {
			return testkit.Times(2*scale, func(i int) error { return modeltest.RunLife(seed + uint64(i)) })
		}},
		{
			name: "even keys", others: true,
			only: []mutant.Name{
				mutant.PassUndecided, mutant.PlainVersions, mutant.PlainRounds,
				mutant.PlainExpiring,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(4*scale, func(i int) error { return modeltest.RunEven(seed + uint64(i)) })
			},
		},
		{
			name: "filters", others: true,
			only: []mutant.Name{mutant.FilterUncovers, mutant.FilterLosesMeta},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error { return modeltest.RunFiltered(seed + uint64(i)) })
			},
		},
		{
			name: "passing time",
			only: []mutant.Name{
				mutant.ForgetDefaultTTL, mutant.KeepDataKey, mutant.KeepMasterKey,
				mutant.KeepLogKey, mutant.RotateForgetsKeys,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error { return modeltest.RunAging(seed + uint64(i)) })
			},
		},
		{
			name: "ages of snapshots",
			only: []mutant.Name{mutant.ExpiredBegins, mutant.ExpiredReadsOn, mutant.ExpiredHolds},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error { return modeltest.RunSnapshotAges(t, seed+uint64(i)) })
			},
		},
		{name: "late versions", others: true, run: func(uint64, int) error { return timestampstest.RunBuried() }},
		{name: "timestamps", others: true, run: func(seed uint64, scale int) error {
			return testkit.Times(2*scale, func(i int) error {
				_, err := timestampstest.RunLife(seed+uint64(i), 300)
				return err
			})
		}},
		{
			name: "feeds",
			only: []mutant.Name{
				mutant.FeedSkip, mutant.FeedTwice, mutant.FeedHalf, mutant.FeedNoRanges,
				mutant.FeedNoDrops, mutant.FeedRangeBefore, mutant.FeedForeignRange,
				mutant.FeedNoPrefix, mutant.FeedGap, mutant.FeedForget, mutant.FeedLoseValues,
				mutant.FeedUnsynced, mutant.FeedUnsyncedFlush, mutant.FeedFollowsUnsynced,
				mutant.FeedFollowsGap, mutant.FeedFollowsValues,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error {
					_, err := feedtest.RunLife(seed+uint64(i), 600)
					if err == nil {
						_, err = feedtest.RunCrashes(seed+uint64(i), 50)
					}
					if err == nil {
						err = testkit.Times(3, func(j int) error {
							_, err := feedtest.RunFollowed(seed+uint64(3*i+j), 600)
							return err
						})
					}
					return err
				})
			},
		},
		{
			name: "followers",
			only: []mutant.Name{
				mutant.FollowHalf, mutant.FollowLogOnly, mutant.FollowTwice, mutant.FollowBlind,
				mutant.FollowLazy, mutant.FollowUnsynced, mutant.CheckpointTablesOnly,
				mutant.FollowUndamaged, mutant.FollowFirstSpan, mutant.FollowChecksOnce,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error {
					_, err := followtest.RunLife(seed+uint64(i), 600)
					if err == nil {
						_, err = followtest.RunBeside(seed+uint64(i), 400, 2, memfs.New(), testkit.Dir)
					}
					if err == nil {
						_, err = followtest.RunDamages(seed+uint64(i), 30)
					}
					if err == nil {
						err = followtest.RunBusyCheck(seed + uint64(i))
					}
					return err
				})
			},
		},
		{
			name: "drops of keyspaces",
			only: []mutant.Name{
				mutant.DropWithoutTombstone, mutant.DropSeenEarly, mutant.ForgetEarly,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error { return modeltest.RunDrops(seed + uint64(i)) })
			},
		},
		{
			name: "queues",
			only: []mutant.Name{
				mutant.GapPassesNewer, mutant.GapHidesLater, mutant.GapTooNew, mutant.GapTooEarly,
				mutant.GapOfOwn, mutant.GapGrowsOver,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(8*scale, func(i int) error { return modeltest.RunQueues(seed + uint64(i)) })
			},
		},
		{
			name: "ends of processes",
			only: []mutant.Name{mutant.PrivateWindow},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error { return kill.RunLeft(seed + uint64(i)) })
			},
		},
		{
			name: "mixture",
			only: []mutant.Name{
				mutant.EditOvertakes, mutant.CollectNothing, mutant.KeepExpired,
				mutant.KeepReplaced,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(10*scale, func(i int) error {
					_, err := mixture.RunLife(seed<<16 + uint64(i))
					return err
				})
			},
		},
		{
			name: "bounds",
			only: []mutant.Name{
				mutant.KeepGarbage, mutant.KeepDiscarded, mutant.KeepMemtables, mutant.KeepLog,
				mutant.IgnoreFull, mutant.IgnoreBudget,
			},
			run: func(uint64, int) error {
				return stress.RunBounds()
			},
		},
		{
			name: "reads",
			only: []mutant.Name{
				mutant.StreamBorderTwice, mutant.StreamBeforeDeletion, mutant.StreamUnordered,
				mutant.StreamSinceSkips, mutant.EstimateTablesOnly, mutant.EstimateFirstLevel,
				mutant.SplitRepeats, mutant.SequenceBuffered, mutant.SequenceReturnsOld,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(2*scale, func(i int) error {
					_, err := readstest.RunLife(seed+uint64(i), 200)
					return err
				})
			},
		},
		{
			name: "backups",
			only: []mutant.Name{
				mutant.BackupForgets, mutant.BackupUnfiltered, mutant.BackupUncovered,
				mutant.RestoreResurrects, mutant.RestoreUnfinished, mutant.RestoreSkipsAhead,
				mutant.RestoreForeign,
			},
			run: func(seed uint64, scale int) error {
				err := testkit.Times(scale, func(i int) error { return backuptest.RunLife(seed+uint64(i), 10) })
				if err == nil {
					_, err = backuptest.RunCrashes(seed, 60*scale)
				}
				return err
			},
		},
		{
			name: "file backups",
			only: []mutant.Name{
				mutant.FileByName, mutant.FileUnverified, mutant.FilePruned, mutant.PruneNewest,
				mutant.PruneUnread, mutant.SortedCut,
			},
			run: func(seed uint64, scale int) error {
				err := testkit.Times(scale, func(i int) error { return backuptest.RunFiles(seed+uint64(i), 10) })
				if err == nil {
					err = backuptest.RunFileDamages(seed, 60*scale)
				}
				if err == nil {
					err = backuptest.RunSorted(seed, 60*scale)
				}
				if err == nil {
					_, err = backuptest.RunFileFaults(seed, 60*scale)
				}
				return err
			},
		},
		{
			name: "keys as files",
			only: []mutant.Name{
				mutant.FileBesideDirectory, mutant.FileNeighbour, mutant.FileEndsEarly,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error { return modeltest.RunFiles(seed + uint64(i)) })
			},
		},
		{
			// Its rounds are quick, and some mutants need a rare one.
			name: "isolation", others: true, rounds: 9,
			only: []mutant.Name{
				mutant.FoldVisible, mutant.FoldTwice, mutant.StampReadsPast,
				mutant.StampPurgeUnread, mutant.StampTablesUnread, mutant.EarlyUnchecked,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error {
					return isolationtest.RunHistories(seed + uint64(10*i))
				})
			},
		},
		{name: "applications", others: true, run: func(seed uint64, _ int) error {
			return testkit.Times(len(isolation.Applications()), func(i int) error {
				_, err := isolationtest.PlayApplication(i, seed)
				return err
			})
		}},
		{name: "crash", others: true, run: func(seed uint64, scale int) error {
			return crash.CheckSome(seed, 8*scale, crash.CheckOnce)
		}},
		{name: "crash twice", others: true, run: func(seed uint64, scale int) error {
			return crash.CheckSome(seed, 2*scale, crash.CheckTwice)
		}},
		{
			name: "batches",
			only: []mutant.Name{mutant.BatchSkipsSync},
			run: func(seed uint64, scale int) error {
				return crash.CheckBatches(seed, 8*scale)
			},
		},
		{
			name: "updates that take turns",
			only: []mutant.Name{mutant.EarlyResult, mutant.EarlyRead, mutant.EarlyOutlives},
			run: func(seed uint64, scale int) error {
				err := testkit.Times(16*scale, func(i int) error { return crash.CheckTurns(seed+uint64(i), 40) })
				if err == nil {
					err = crash.CheckFailedTurns(seed, 20*scale)
				}
				return err
			},
		},
		{
			name: "syncs ahead",
			only: []mutant.Name{mutant.SyncAheadTooFar, mutant.SyncAheadFails},
			run: func(_ uint64, scale int) error {
				return crash.CheckAhead(2 * scale)
			},
		},
		{
			name: "full segments",
			only: []mutant.Name{
				mutant.SyncOvertakes, mutant.ClaimsEarly, mutant.CarryLosesSegments,
			},
			run: func(seed uint64, scale int) error {
				return crash.CheckPending(t, seed, 2*scale)
			},
		},
		{
			name: "ingests",
			only: []mutant.Name{mutant.RelayLosesLast, mutant.RelayLosesError, mutant.RelayBorrows},
			run: func(seed uint64, scale int) error {
				_, err := faults.RunIngests(seed, 10*scale)
				return err
			},
		},
		{
			name: "crowded memory",
			only: []mutant.Name{mutant.HintTrusted},
			run: func(seed uint64, scale int) error {
				return schedules.RunCrowded(seed, 10*scale)
			},
		},
		{
			name: "bits", others: true,
			only: []mutant.Name{
				mutant.IgnoreDurableMark, mutant.IgnoreSeal, mutant.IgnoreUnreferenced,
			},
			run: func(seed uint64, scale int) error {
				return bits.DamageSome(images(), seed, 40*scale)
			},
		},
		{
			name: "salvage",
			only: []mutant.Name{mutant.SalvageNoSum, mutant.SalvageToDamage},
			run: func(seed uint64, scale int) error {
				return bits.SalvageSome(t, images(), seed, 20*scale)
			},
		},
		{
			name: "repairs",
			only: []mutant.Name{
				mutant.RepairUncounted, mutant.RepairLosesLast, mutant.RepairShiftsTwice,
			},
			run: func(seed uint64, scale int) error {
				return bits.RepairSome(t, bits.RepairImages(t, images()), seed, 10*scale)
			},
		},
		{
			name: "nonces",
			only: []mutant.Name{
				mutant.FrameNonce, mutant.PageNonce, mutant.PagePosition, mutant.SameFileKey,
				mutant.ContinueSealed,
			},
			run: func(seed uint64, scale int) error {
				_, err := crash.CheckNonces(seed, 20_000*scale, 4)
				return err
			},
		},
		{
			name: "faults", others: true,
			only: []mutant.Name{mutant.NoPoison, mutant.RetrySync, mutant.SwallowFlushError},
			run: func(seed uint64, scale int) error {
				return faults.FailSome(scenes(), seed, 4*scale)
			},
		},
		{
			name: "cuts",
			only: []mutant.Name{mutant.CutAtBottom, mutant.CutOwnFilter},
			run: func(seed uint64, scale int) error {
				return testkit.Times(scale, func(i int) error {
					_, err := schedules.RunCuts(seed + uint64(i))
					return err
				})
			},
		},
		{
			name: "schedules",
			only: []mutant.Name{
				mutant.NoBarrier, mutant.UnconfirmedView, mutant.UntoldState,
				mutant.ForgetSnapshots, mutant.FlushUnpublished, mutant.CollectHeld,
				mutant.DropNeededBase, mutant.RenewExpired, mutant.StaleSteps, mutant.EarlyDiscard,
				mutant.DeleteTwice,
			},
			run: func(seed uint64, scale int) error {
				return testkit.Times(60*scale, func(i int) error { return schedules.RunSchedule(seed<<16 + uint64(i)) })
			},
		},
	}
}
