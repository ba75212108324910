package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A workload is something a program does with a database. It runs on an
// open database and leaves one open.
type workload struct {
	name     string
	memtable int64
	run      func(r *crashRun) error
}

var allWorkloads = append([]workload{
	{"create", testkit.LargeMemtable, func(r *crashRun) error { return nil }},
	{"one key at a time", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(40, func(i int) error { return r.commit(stoat.Synced, testkit.SetKey(i%7, testkit.RandomValue(r.rng, 20))) })
	}},
	{"batches", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(15, func(int) error { return r.commit(stoat.Synced, testkit.MergeBatch(r.rng, 30, 60)...) })
	}},
	{"buffered", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(60, func(int) error { return r.commit(stoat.Buffered, testkit.MergeBatch(r.rng, 3, 100)...) })
	}},
	{"buffered mixed with synced", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(50, func(int) error {
			return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 3, 40)...)
		})
	}},
	{"buffered with syncs", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(60, func(i int) error {
			if i%7 == 6 {
				return r.sync()
			}
			return r.commit(stoat.Buffered, testkit.MergeBatch(r.rng, 2, 40)...)
		})
	}},
	{"transactions of many frames", testkit.LargeMemtable, func(r *crashRun) error {
		// A frame holds a megabyte. Larger values would not go to the log.
		return testkit.Times(4, func(i int) error {
			var writes []model.Write
			for key := range 700 {
				v := testkit.RandomValue(r.rng, 0)
				writes = append(writes, testkit.SetKey(key, strings.Repeat(v, 4000/len(v))))
			}
			if err := r.commit(testkit.RandomDurability(r.rng), writes...); err != nil {
				return err
			}
			return r.commit(stoat.Synced, testkit.SetKey(i, "small"))
		})
	}},
	{"values that the commit writes apart", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(2, func(i int) error {
			var writes []model.Write
			for key := range 20 {
				writes = append(writes, testkit.SetKey(key, strings.Repeat(testkit.RandomValue(r.rng, 0), 8<<10)))
			}
			if err := r.commit(testkit.RandomDurability(r.rng), writes...); err != nil {
				return err
			}
			return r.commit(stoat.Synced, testkit.SetKey(i, "small"))
		})
	}},
	{"rotation of segments", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(80, func(i int) error {
			return r.commit(testkit.RandomDurability(r.rng), testkit.SetKey(i%40, testkit.RandomValue(r.rng, 20<<10)))
		})
	}},
	{"rotation of memtables", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(60, func(int) error {
			return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 4, 1500)...)
		})
	}},
	{"transactions larger than a memtable", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(6, func(int) error {
			return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 60, 3000)...)
		})
	}},
	{"deletes and overwrites", testkit.LargeMemtable, deletesAndOverwrites},
	{"time to live", testkit.LargeMemtable, timeToLive},
	{"metadata and odd sizes", testkit.LargeMemtable, oddSizes},
	{"async", testkit.LargeMemtable, asyncCommits},
	{"concurrent writers", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Concurrently(4, func(i int, rng *rand.Rand) error {
			return testkit.Times(15, func(int) error { return r.commit(stoat.Synced, testkit.MergeBatch(rng, 2, 50)...) })
		}, r.seed)
	}},
	{"concurrent writers, mixed", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Concurrently(4, func(i int, rng *rand.Rand) error {
			return testkit.Times(15, func(int) error { return r.commit(testkit.RandomDurability(rng), testkit.MergeBatch(rng, 3, 2000)...) })
		}, r.seed)
	}},
	{"concurrent writers and syncs", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Concurrently(4, func(i int, rng *rand.Rand) error {
			return testkit.Times(15, func(i int) error {
				if rng.IntN(5) == 0 {
					return r.sync()
				}
				return r.commit(stoat.Buffered, testkit.MergeBatch(rng, 2, 50)...)
			})
		}, r.seed)
	}},
	{"readers of synced commits", testkit.LargeMemtable, readersOfSynced},
	{"conflicts and discards", testkit.LargeMemtable, conflictsAndDiscards},
	{"close and open", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(8, func(int) error {
			if err := testkit.Times(r.rng.IntN(4), func(int) error {
				return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 2, 40)...)
			}); err != nil {
				return err
			}
			return r.reopen()
		})
	}},
	{"close with buffered commits", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(6, func(int) error {
			if err := r.commit(stoat.Buffered, testkit.MergeBatch(r.rng, 5, 200)...); err != nil {
				return err
			}
			return r.reopen()
		})
	}},
	{"open without writing", testkit.LargeMemtable, func(r *crashRun) error {
		if err := r.commit(stoat.Synced, testkit.MergeBatch(r.rng, 5, 100)...); err != nil {
			return err
		}
		return testkit.Times(6, func(int) error { return r.reopen() })
	}},
	{"killed again and again", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(6, func(int) error { return writeAndCrash(r, (*memfs.FS).Clone, &killed) })
	}},
	{"power cuts again and again", testkit.SmallMemtable, func(r *crashRun) error {
		return testkit.Times(6, func(int) error { return writeAndCrash(r, testkit.RandomCut(r.rng), &powerCut) })
	}},
	{"kills and power cuts", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Times(8, func(i int) error {
			if i%2 == 0 {
				return writeAndCrash(r, (*memfs.FS).Clone, &killed)
			}
			return writeAndCrash(r, testkit.RandomCut(r.rng), &powerCut)
		})
	}},
	{"full disk", testkit.SmallMemtable, fullDisk},
	{"ingests", testkit.SmallMemtable, ingests},
	{"ingests beside commits", testkit.LargeMemtable, func(r *crashRun) error {
		return testkit.Concurrently(3, func(i int, rng *rand.Rand) error {
			return testkit.Times(8, func(int) error {
				if i == 0 {
					return r.ingest(testkit.RandomBatch(rng, 5, 2000))
				}
				return r.commit(testkit.RandomDurability(rng), testkit.MergeBatch(rng, 3, 50)...)
			})
		}, r.seed)
	}},
}, slices.Concat(batchWorkloads, turnWorkloads, treeWorkloads, valueWorkloads)...)

func (r *crashRun) reopen() error {
	known := r.known.Load()
	if err := r.close(); err != nil {
		return err
	}
	_, err := r.open(known)
	return err
}

// ingests mixes ingests with commits that they replace, or that replace them.
func ingests(r *crashRun) error {
	return testkit.Times(25, func(i int) error {
		switch r.rng.IntN(4) {
		case 0:
			return r.ingest(testkit.RandomBatch(r.rng, 1+r.rng.IntN(60), 3000))
		case 1:
			return r.ingest([]model.Write{testkit.SetKey(i%7, testkit.RandomValue(r.rng, 20))})
		}
		return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 6, 500)...)
	})
}

func deletesAndOverwrites(r *crashRun) error {
	return testkit.Times(50, func(int) error {
		writes := testkit.MergeBatch(r.rng, 6, 30)
		for i := range writes {
			if r.rng.IntN(2) == 0 {
				writes[i].Version = model.Version{Deleted: true}
			}
		}
		return r.commit(testkit.RandomDurability(r.rng), writes...)
	})
}

func timeToLive(r *crashRun) error {
	return testkit.Times(40, func(int) error {
		writes := testkit.MergeBatch(r.rng, 4, 30)
		for i := range writes {
			if r.rng.IntN(2) == 0 {
				writes[i].ExpiresAt = testkit.ClockStart + uint64(r.rng.IntN(100))
			}
		}
		r.clock.Ms.Add(int64(r.rng.IntN(4)))
		return r.commit(testkit.RandomDurability(r.rng), writes...)
	})
}

func oddSizes(r *crashRun) error {
	return testkit.Times(40, func(i int) error {
		w := testkit.SetKey(i, strings.Repeat("x", []int{0, 1, 7, 8, 9, 479, 480, 481, 4095, 4096, 4097}[i%11]))
		w.Key = strings.Repeat("k", 1+i*i*30)
		w.User = byte(i)
		return r.commit(testkit.RandomDurability(r.rng), w)
	})
}

// asyncCommits hands commits over without waiting, from one goroutine, so
// that their versions are their order.
func asyncCommits(r *crashRun) error {
	for range 8 {
		outcomes := make(chan error, 10)
		for range 10 {
			tx, err := r.db.Begin(stoat.ReadWrite)
			if err != nil {
				return err
			}
			writes, d := testkit.MergeBatch(r.rng, 3, 60), testkit.RandomDurability(r.rng)
			if err := testkit.PutAll(tx, writes); err != nil {
				return err
			}
			r.era.mu.Lock()
			seq := r.era.before.Last() + uint64(len(r.era.commits)) + 1
			r.era.commits[seq] = writes
			r.era.mu.Unlock()
			tx.CommitAsync(func(version uint64, err error) {
				if err == nil && version != seq {
					err = fmt.Errorf("an async commit got version %d, want %d", version, seq)
				}
				if err == nil {
					r.acknowledged(seq, d)
				}
				outcomes <- err
			}, stoat.WithDurability(d))
		}
		for range 10 {
			if err := <-outcomes; err != nil {
				return err
			}
		}
	}
	return nil
}

// readersOfSynced reads beside writers whose commits are all synced: what a
// reader has seen, no power cut may take.
func readersOfSynced(r *crashRun) error {
	return besideReader(r, 3, func(rng *rand.Rand) error {
		return testkit.Times(15, func(int) error { return r.commit(stoat.Synced, testkit.MergeBatch(rng, 2, 50)...) })
	})
}

// besideReader runs write on several goroutines. What a reader sees meanwhile has to be
// durable, so all writes must be Synced.
func besideReader(r *crashRun, writers int64, write func(rng *rand.Rand) error) error {
	var writing atomic.Int64
	writing.Store(writers)
	return testkit.Concurrently(1+int(writers), func(i int, rng *rand.Rand) error {
		if i > 0 {
			defer writing.Add(-1)
			return write(rng)
		}
		for writing.Load() > 0 {
			if err := r.db.View(func(tx stoat.Txn) error {
				r.acknowledged(tx.ReadVersion(), stoat.Synced)
				return nil
			}); err != nil {
				return err
			}
			runtime.Gosched()
		}
		return nil
	}, r.seed)
}

// conflictsAndDiscards leaves transactions that must never show.
func conflictsAndDiscards(r *crashRun) error {
	return testkit.Times(20, func(i int) error {
		lost, err := r.db.Begin(stoat.ReadWrite)
		if err != nil {
			return err
		}
		defer lost.Discard()
		writes := testkit.MergeBatch(r.rng, 3, 40)
		if _, err := lost.Has([]byte(writes[0].Key)); err != nil {
			return err
		}
		if err := testkit.PutAll(lost, append(writes, testkit.SetKey(900+i, "lost"))); err != nil {
			return err
		}
		if err := r.commit(testkit.RandomDurability(r.rng), writes...); err != nil {
			return err
		}
		if i%2 == 0 {
			return nil
		}
		if err := lost.Commit(); !errors.Is(err, stoat.ErrConflict) {
			return fmt.Errorf("commit: %v, want ErrConflict", err)
		}
		return nil
	})
}

// A promise is what a kind of crash must keep.
type promise func(r *crashRun) uint64

var (
	killed   promise = func(r *crashRun) uint64 { return r.known.Load() }
	powerCut promise = func(r *crashRun) uint64 { return r.durable.Load() }
)

func writeAndCrash(r *crashRun, cut func(*memfs.FS) *memfs.FS, p *promise) error {
	if err := testkit.Times(r.rng.IntN(10), func(int) error {
		return r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 3, 800)...)
	}); err != nil {
		return err
	}
	return r.crash(cut, (*p)(r))
}

// fullDisk goes on writing on a disk that is full, then makes room.
func fullDisk(r *crashRun) error {
	r.fs.SetCapacity(r.fs.UsedBytes() + 200<<10)
	full := 0
	// Collection makes room for what replaces something; what is live grows.
	for tries := 0; tries < 60 || full == 0 && tries < 2000; tries++ {
		switch err := r.commit(testkit.RandomDurability(r.rng), testkit.MergeBatch(r.rng, 6, 8<<10)...); {
		case errors.Is(err, stoat.ErrNoSpace):
			full++
		case err != nil:
			return err
		}
	}
	if full == 0 {
		return errors.New("the disk never became full")
	}
	r.fs.SetCapacity(1 << 40)
	// How soon the database notices is TestFullDisk's concern.
	for {
		err := r.commit(stoat.Synced, testkit.SetKey(1, "room again"))
		if !errors.Is(err, stoat.ErrNoSpace) {
			return err
		}
		runtime.Gosched()
	}
}
