package stoat_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A crashWorkload is something a program does with a database. It runs on an
// open database and leaves one open.
type crashWorkload struct {
	name     string
	memtable int64
	run      func(r *crashRun) error
}

const (
	smallMemtable = 64 << 10
	largeMemtable = 64 << 20
)

var crashWorkloads = append([]crashWorkload{
	{"create", largeMemtable, func(r *crashRun) error { return nil }},
	{"one key at a time", largeMemtable, func(r *crashRun) error {
		return times(40, func(i int) error { return r.commit(stoat.Synced, set(i%7, value(r.rng, 20))) })
	}},
	{"batches", largeMemtable, func(r *crashRun) error {
		return times(15, func(int) error { return r.commit(stoat.Synced, batch(r.rng, 30, 60)...) })
	}},
	{"buffered", largeMemtable, func(r *crashRun) error {
		return times(60, func(int) error { return r.commit(stoat.Buffered, batch(r.rng, 3, 100)...) })
	}},
	{"buffered mixed with synced", largeMemtable, func(r *crashRun) error {
		return times(50, func(int) error { return r.commit(anyDurability(r.rng), batch(r.rng, 3, 40)...) })
	}},
	{"buffered with syncs", largeMemtable, func(r *crashRun) error {
		return times(60, func(i int) error {
			if i%7 == 6 {
				return r.sync()
			}
			return r.commit(stoat.Buffered, batch(r.rng, 2, 40)...)
		})
	}},
	{"transactions of many frames", largeMemtable, func(r *crashRun) error {
		// A frame holds a megabyte. Larger values would not go to the log.
		return times(4, func(i int) error {
			var writes []model.Write
			for key := range 700 {
				v := value(r.rng, 0)
				writes = append(writes, set(key, strings.Repeat(v, 4000/len(v))))
			}
			if err := r.commit(anyDurability(r.rng), writes...); err != nil {
				return err
			}
			return r.commit(stoat.Synced, set(i, "small"))
		})
	}},
	{"values that the commit writes apart", largeMemtable, func(r *crashRun) error {
		return times(2, func(i int) error {
			var writes []model.Write
			for key := range 20 {
				writes = append(writes, set(key, strings.Repeat(value(r.rng, 0), 8<<10)))
			}
			if err := r.commit(anyDurability(r.rng), writes...); err != nil {
				return err
			}
			return r.commit(stoat.Synced, set(i, "small"))
		})
	}},
	{"rotation of segments", largeMemtable, func(r *crashRun) error {
		return times(80, func(i int) error { return r.commit(anyDurability(r.rng), set(i%40, value(r.rng, 20<<10))) })
	}},
	{"rotation of memtables", smallMemtable, func(r *crashRun) error {
		return times(60, func(int) error { return r.commit(anyDurability(r.rng), batch(r.rng, 4, 1500)...) })
	}},
	{"transactions larger than a memtable", smallMemtable, func(r *crashRun) error {
		return times(6, func(int) error { return r.commit(anyDurability(r.rng), batch(r.rng, 60, 3000)...) })
	}},
	{"deletes and overwrites", largeMemtable, deletesAndOverwrites},
	{"time to live", largeMemtable, timeToLive},
	{"metadata and odd sizes", largeMemtable, oddSizes},
	{"async", largeMemtable, asyncCommits},
	{"concurrent writers", largeMemtable, func(r *crashRun) error {
		return concurrently(4, func(i int, rng *rand.Rand) error {
			return times(15, func(int) error { return r.commit(stoat.Synced, batch(rng, 2, 50)...) })
		}, r.seed)
	}},
	{"concurrent writers, mixed", smallMemtable, func(r *crashRun) error {
		return concurrently(4, func(i int, rng *rand.Rand) error {
			return times(15, func(int) error { return r.commit(anyDurability(rng), batch(rng, 3, 2000)...) })
		}, r.seed)
	}},
	{"concurrent writers and syncs", largeMemtable, func(r *crashRun) error {
		return concurrently(4, func(i int, rng *rand.Rand) error {
			return times(15, func(i int) error {
				if rng.IntN(5) == 0 {
					return r.sync()
				}
				return r.commit(stoat.Buffered, batch(rng, 2, 50)...)
			})
		}, r.seed)
	}},
	{"readers of synced commits", largeMemtable, readersOfSynced},
	{"conflicts and discards", largeMemtable, conflictsAndDiscards},
	{"close and open", largeMemtable, func(r *crashRun) error {
		return times(8, func(int) error {
			if err := times(r.rng.IntN(4), func(int) error {
				return r.commit(anyDurability(r.rng), batch(r.rng, 2, 40)...)
			}); err != nil {
				return err
			}
			return r.reopen()
		})
	}},
	{"close with buffered commits", largeMemtable, func(r *crashRun) error {
		return times(6, func(int) error {
			if err := r.commit(stoat.Buffered, batch(r.rng, 5, 200)...); err != nil {
				return err
			}
			return r.reopen()
		})
	}},
	{"open without writing", largeMemtable, func(r *crashRun) error {
		if err := r.commit(stoat.Synced, batch(r.rng, 5, 100)...); err != nil {
			return err
		}
		return times(6, func(int) error { return r.reopen() })
	}},
	{"killed again and again", smallMemtable, func(r *crashRun) error {
		return times(6, func(int) error { return writeAndCrash(r, (*memfs.FS).Clone, &killed) })
	}},
	{"power cuts again and again", smallMemtable, func(r *crashRun) error {
		return times(6, func(int) error { return writeAndCrash(r, anyCut(r.rng), &powerCut) })
	}},
	{"kills and power cuts", largeMemtable, func(r *crashRun) error {
		return times(8, func(i int) error {
			if i%2 == 0 {
				return writeAndCrash(r, (*memfs.FS).Clone, &killed)
			}
			return writeAndCrash(r, anyCut(r.rng), &powerCut)
		})
	}},
	{"full disk", smallMemtable, fullDisk},
}, append(treeWorkloads, valueWorkloads...)...)

func times(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func set(key int, value string) model.Write {
	return model.Write{Key: fmt.Sprintf("key%03d", key), Version: model.Version{Value: value}}
}

// value makes a value of up to n bytes that no other value starts like.
func value(rng *rand.Rand, n int) string {
	return fmt.Sprintf("%016x", rng.Uint64()) + strings.Repeat("v", rng.IntN(n+1))
}

// batch makes writes of different keys, with values of up to n bytes.
func batch(rng *rand.Rand, keys, n int) []model.Write {
	writes := make([]model.Write, 0, keys)
	for _, key := range rng.Perm(2 * keys)[:1+rng.IntN(keys)] {
		writes = append(writes, set(key, value(rng, n)))
	}
	return writes
}

func anyDurability(rng *rand.Rand) stoat.Durability {
	if rng.IntN(3) == 0 {
		return stoat.Synced
	}
	return stoat.Buffered
}

func anyCut(rng *rand.Rand) func(*memfs.FS) *memfs.FS {
	kinds := memfs.CrashKinds()
	return func(m *memfs.FS) *memfs.FS { return m.Crash(kinds[rng.IntN(len(kinds))], rng) }
}

func concurrently(n int, do func(i int, rng *rand.Rand) error, seed uint64) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = do(i, rand.New(rand.NewPCG(seed, uint64(100+i)))) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (r *crashRun) reopen() error {
	known := r.known.Load()
	if err := r.close(); err != nil {
		return err
	}
	_, err := r.open(known)
	return err
}

func deletesAndOverwrites(r *crashRun) error {
	return times(50, func(int) error {
		writes := batch(r.rng, 6, 30)
		for i := range writes {
			if r.rng.IntN(2) == 0 {
				writes[i].Version = model.Version{Deleted: true}
			}
		}
		return r.commit(anyDurability(r.rng), writes...)
	})
}

func timeToLive(r *crashRun) error {
	return times(40, func(int) error {
		writes := batch(r.rng, 4, 30)
		for i := range writes {
			if r.rng.IntN(2) == 0 {
				writes[i].ExpiresAt = clockStart + uint64(r.rng.IntN(100))
			}
		}
		r.clock.ms.Add(int64(r.rng.IntN(4)))
		return r.commit(anyDurability(r.rng), writes...)
	})
}

func oddSizes(r *crashRun) error {
	return times(40, func(i int) error {
		w := set(i, strings.Repeat("x", []int{0, 1, 7, 8, 9, 479, 480, 481, 4095, 4096, 4097}[i%11]))
		w.Key = strings.Repeat("k", 1+i*i*30)
		w.User = byte(i)
		return r.commit(anyDurability(r.rng), w)
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
			writes, d := batch(r.rng, 3, 60), anyDurability(r.rng)
			if err := fill(tx, writes); err != nil {
				return err
			}
			r.era.mu.Lock()
			seq := r.era.before.Last() + uint64(len(r.era.commits)) + 1
			r.era.commits[seq] = writes
			r.era.mu.Unlock()
			tx.CommitAsync(func(err error) {
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
	var writing atomic.Int64
	writing.Store(3)
	return concurrently(4, func(i int, rng *rand.Rand) error {
		if i == 0 {
			for writing.Load() > 0 {
				if err := r.db.View(func(tx *stoat.Txn) error {
					r.acknowledged(tx.ReadVersion(), stoat.Synced)
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		}
		defer writing.Add(-1)
		return times(15, func(int) error { return r.commit(stoat.Synced, batch(rng, 2, 50)...) })
	}, r.seed)
}

// conflictsAndDiscards leaves transactions that must never show.
func conflictsAndDiscards(r *crashRun) error {
	return times(20, func(i int) error {
		lost, err := r.db.Begin(stoat.ReadWrite)
		if err != nil {
			return err
		}
		defer lost.Discard()
		writes := batch(r.rng, 3, 40)
		if _, err := lost.Has([]byte(writes[0].Key)); err != nil {
			return err
		}
		if err := fill(lost, append(writes, set(900+i, "lost"))); err != nil {
			return err
		}
		if err := r.commit(anyDurability(r.rng), writes...); err != nil {
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
	if err := times(r.rng.IntN(10), func(int) error {
		return r.commit(anyDurability(r.rng), batch(r.rng, 3, 800)...)
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
		switch err := r.commit(anyDurability(r.rng), batch(r.rng, 6, 8<<10)...); {
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
		err := r.commit(stoat.Synced, set(1, "room again"))
		if !errors.Is(err, stoat.ErrNoSpace) {
			return err
		}
		runtime.Gosched()
	}
}
