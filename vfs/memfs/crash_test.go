package memfs

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

var (
	crashSeed  = flag.Uint64("memfs.crash-seed", 0, "seed of the crash workloads, 0 for a random one")
	crashRuns  = flag.Int("memfs.crash-runs", 3, "number of crash workloads")
	crashSteps = flag.Int("memfs.crash-steps", 120, "operations of a crash workload")
	// The states after one operation are of random kinds.
	crashStates = flag.Int("memfs.crash-states", 8, "crash states after each operation")
)

// eachSeed runs test with several seeds and logs how to repeat a failure.
func eachSeed(t *testing.T, test func(t *testing.T, rng *rand.Rand)) {
	for run := range *crashRuns {
		seed := *crashSeed
		if seed == 0 {
			seed = rand.Uint64()
		} else if run > 0 {
			return
		}
		t.Run(fmt.Sprint("run", run), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("repeat with: go test ./vfs/memfs -run '%s' -memfs.crash-seed=%d", t.Name(), seed)
				}
			}()
			test(t, testRand(seed))
		})
	}
}

func TestCrash_StatesAreLegal(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rng *rand.Rand) {
		w := newWorkload(t, rng)
		for step := range *crashSteps {
			w.step()
			for range *crashStates {
				kind := CrashKinds()[rng.IntN(len(CrashKinds()))]
				if err := w.check(w.disk.Crash(kind, rng)); err != nil {
					t.Fatalf("step %d, kind %q: %v", step, kind, err)
				}
			}
		}
	})
}

func TestCrash_NewDiskIsDurable(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rng *rand.Rand) {
		w := newWorkload(t, rng)
		for range *crashSteps / 4 {
			for range 4 {
				w.step()
			}
			after := w.disk.Crash(Mixed, rng)
			again := after.Crash(CrashKinds()[rng.IntN(len(CrashKinds()))], rng)
			wantSameDisk(t, dump(t, again), dump(t, after))
		}
	})
}

func TestCrash_DoesNotChangeItsSource(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rng *rand.Rand) {
		w := newWorkload(t, rng)
		for range *crashSteps / 4 {
			for range 4 {
				w.step()
			}
			before, unsynced := dump(t, w.disk), len(w.disk.Unsynced())
			after := w.disk.Crash(Mixed, rng)
			scribble(t, after, rng)
			wantSameDisk(t, dump(t, w.disk), before)
			if got := len(w.disk.Unsynced()); got != unsynced {
				t.Fatalf("%d unsynced operations, %d before", got, unsynced)
			}
		}
	})
}

// scribble overwrites every file of a disk.
func scribble(t *testing.T, m *FS, rng *rand.Rand) {
	t.Helper()
	for name, contents := range dump(t, m) {
		if contents == "directory" {
			continue
		}
		f, err := m.OpenReadWrite(name, vfs.CatTable)
		must(t, err)
		write(t, f, rng.Int64N(int64(len(contents))+1), "scribbled")
		closeFile(t, f)
	}
}

// TestCrashKeeping_PrefixIsThePast keeps the first n operations in a crash, and compares
// the disk with what readers saw after them.
func TestCrashKeeping_PrefixIsThePast(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rng *rand.Rand) {
		w := newWorkload(t, rng)
		for range 20 {
			w.step()
		}
		for _, f := range w.open {
			must(t, f.Sync())
		}
		for _, dir := range w.dirs {
			must(t, w.disk.SyncDir(dir))
		}
		w.neverSyncs = true
		past := []map[string]string{dump(t, w.disk)}
		for len(past) < 30 {
			before := len(w.disk.Unsynced())
			w.step()
			made := len(w.disk.Unsynced()) - before
			for range made - 1 {
				// A rename between directories is two changes. Readers never see the
				// disk between them.
				past = append(past, nil)
			}
			if made > 0 {
				past = append(past, dump(t, w.disk))
			}
		}
		for n, want := range past {
			if want != nil {
				wantSameDisk(t, dump(t, w.disk.CrashKeeping(func(i int) bool { return i < n })), want)
			}
		}
	})
}

func TestCrash_DependsOnlyOnStateAndSeed(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rng *rand.Rand) {
		w := newWorkload(t, rng)
		for range *crashSteps {
			w.step()
		}
		for _, kind := range CrashKinds() {
			seed := rng.Uint64()
			first := dump(t, w.disk.Crash(kind, testRand(seed)))
			wantSameDisk(t, dump(t, w.disk.Clone().Crash(kind, testRand(seed))), first)
		}
	})
}
