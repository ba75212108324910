//go:build mutants

package mutants

import (
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/hunt"
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
// campaign notices.
func TestMutants(t *testing.T) { hunt.All(t, "TestMutants_Hunt", harnesses(t)) }

// TestMutants_Hunt is one hunt of TestMutants.
func TestMutants_Hunt(t *testing.T) { hunt.One(t, harnesses(t)) }

// harnesses returns a small dose of each campaign.
func harnesses(t *testing.T) []hunt.Harness {
	// The images and the scenes are made when they are needed, and then without the
	// guarantee as well.
	images := sync.OnceValue(func() []*bits.Image { return bits.Images(t) })
	scenes := sync.OnceValue(func() []*faults.Scene { return faults.Scenes(t) })
	return []hunt.Harness{
		{Name: "model", Run: func(seed uint64, scale int) error {
			return testkit.Times(2*scale, func(i int) error { return modeltest.RunLife(seed + uint64(i)) })
		}},
		{Name: hunt.Even, Run: func(seed uint64, scale int) error {
			return testkit.Times(4*scale, func(i int) error { return modeltest.RunEven(seed + uint64(i)) })
		}},
		{Name: hunt.Filters, Run: func(seed uint64, scale int) error {
			return testkit.Times(scale, func(i int) error { return modeltest.RunFiltered(seed + uint64(i)) })
		}},
		{Name: hunt.Aging, Asked: true, Run: func(seed uint64, scale int) error {
			return testkit.Times(scale, func(i int) error { return modeltest.RunAging(seed + uint64(i)) })
		}},
		{Name: hunt.Ages, Asked: true, Run: func(seed uint64, scale int) error {
			return testkit.Times(scale, func(i int) error { return modeltest.RunSnapshotAges(t, seed+uint64(i)) })
		}},
		{Name: "late versions", Run: func(uint64, int) error { return timestampstest.RunBuried() }},
		{Name: "timestamps", Run: func(seed uint64, scale int) error {
			return testkit.Times(2*scale, func(i int) error {
				_, err := timestampstest.RunLife(seed+uint64(i), 300)
				return err
			})
		}},
		{Name: hunt.Feeds, Run: func(seed uint64, scale int) error {
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
		}, Asked: true},
		{Name: hunt.Followers, Run: func(seed uint64, scale int) error {
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
		}, Asked: true},
		{Name: hunt.Drops, Run: func(seed uint64, scale int) error {
			return testkit.Times(scale, func(i int) error { return modeltest.RunDrops(seed + uint64(i)) })
		}, Asked: true},
		{Name: hunt.Queues, Run: func(seed uint64, scale int) error {
			return testkit.Times(8*scale, func(i int) error { return modeltest.RunQueues(seed + uint64(i)) })
		}, Asked: true},
		{Name: hunt.Processes, Asked: true, Run: func(seed uint64, scale int) error {
			return testkit.Times(scale, func(i int) error { return kill.RunLeft(seed + uint64(i)) })
		}},
		{Name: hunt.Mixture, Asked: true, Run: func(seed uint64, scale int) error {
			return testkit.Times(10*scale, func(i int) error {
				_, err := mixture.RunLife(seed<<16 + uint64(i))
				return err
			})
		}},
		{Name: hunt.Bounds, Asked: true, Run: func(uint64, int) error { return stress.RunBounds() }},
		{Name: hunt.Reads, Asked: true, Run: func(seed uint64, scale int) error {
			return testkit.Times(2*scale, func(i int) error {
				_, err := readstest.RunLife(seed+uint64(i), 200)
				return err
			})
		}},
		{Name: hunt.Backups, Asked: true, Run: func(seed uint64, scale int) error {
			err := testkit.Times(scale, func(i int) error { return backuptest.RunLife(seed+uint64(i), 10) })
			if err == nil {
				_, err = backuptest.RunCrashes(seed, 60*scale)
			}
			return err
		}},
		{Name: hunt.Files, Asked: true, Run: func(seed uint64, scale int) error {
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
		}},
		{Name: hunt.Trees, Asked: true, Run: func(seed uint64, scale int) error {
			return testkit.Times(scale, func(i int) error { return modeltest.RunFiles(seed + uint64(i)) })
		}},
		{Name: hunt.Isolation, Run: func(seed uint64, scale int) error {
			return testkit.Times(scale, func(i int) error {
				return isolationtest.RunHistories(seed + uint64(10*i))
			})
		}},
		{Name: "applications", Run: func(seed uint64, _ int) error {
			return testkit.Times(len(isolation.Applications()), func(i int) error {
				_, err := isolationtest.PlayApplication(i, seed)
				return err
			})
		}},
		{Name: "crash", Run: func(seed uint64, scale int) error {
			return crash.CheckSome(seed, 8*scale, crash.CheckOnce)
		}},
		{Name: "crash twice", Run: func(seed uint64, scale int) error {
			return crash.CheckSome(seed, 2*scale, crash.CheckTwice)
		}},
		{Name: hunt.Batches, Asked: true, Run: func(seed uint64, scale int) error {
			return crash.CheckBatches(seed, 8*scale)
		}},
		{Name: hunt.Turns, Asked: true, Run: func(seed uint64, scale int) error {
			err := testkit.Times(16*scale, func(i int) error { return crash.CheckTurns(seed+uint64(i), 40) })
			if err == nil {
				err = crash.CheckFailedTurns(seed, 20*scale)
			}
			return err
		}},
		{Name: hunt.Ahead, Asked: true, Run: func(_ uint64, scale int) error { return crash.CheckAhead(2 * scale) }},
		{Name: hunt.Pending, Asked: true, Run: func(seed uint64, scale int) error { return crash.CheckPending(t, seed, 2*scale) }},
		{Name: hunt.Ingests, Asked: true, Run: func(seed uint64, scale int) error {
			_, err := faults.RunIngests(seed, 10*scale)
			return err
		}},
		{Name: hunt.Crowds, Asked: true, Run: func(seed uint64, scale int) error { return schedules.RunCrowded(seed, 10*scale) }},
		{Name: hunt.Bits, Run: func(seed uint64, scale int) error {
			return bits.DamageSome(images(), seed, 40*scale)
		}},
		{Name: hunt.Salvage, Asked: true, Run: func(seed uint64, scale int) error {
			return bits.SalvageSome(t, images(), seed, 20*scale)
		}},
		{Name: hunt.Repairs, Asked: true, Run: func(seed uint64, scale int) error {
			return bits.RepairSome(t, bits.RepairImages(t, images()), seed, 10*scale)
		}},
		{Name: hunt.Nonces, Asked: true, Run: func(seed uint64, scale int) error {
			_, err := crash.CheckNonces(seed, 20_000*scale, 4)
			return err
		}},
		{Name: hunt.Faults, Run: func(seed uint64, scale int) error {
			return faults.FailSome(scenes(), seed, 4*scale)
		}},
		{Name: hunt.Schedules, Asked: true, Run: func(seed uint64, scale int) error {
			return testkit.Times(60*scale, func(i int) error { return schedules.RunSchedule(seed<<16 + uint64(i)) })
		}},
		{Name: hunt.Resurrection, Asked: true, Run: func(uint64, int) error { return schedules.ResurrectedKey() }},
	}
}
