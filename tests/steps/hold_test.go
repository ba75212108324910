package steps

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// setEach sets keys from one on, below another, to values of five kilobytes.
func setEach(t *testing.T, db *inside.DB, from, below, step int) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := from; i < below; i += step {
			if err := tx.Set(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte{byte(i + step)}, 5000)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Each of many small commits makes some garbage. The collector waits for readers after the
// last of them, but not for all of the time between them.
func TestHold_CommitsFarApartBesideAReaderLeaveLittleGarbage(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 5 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, err := inside.Open("/db", &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20}, work.Executor{})
				testkit.Must(t, err)
				const keys = 3000
				setEach(t, db, 0, keys, 1)
				time.Sleep(2 * time.Second)
				peak := uint64(0)
				for round := range 60 {
					setEach(t, db, round*7%10, keys, 10)
					for until := time.Now().Add(every); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
						testkit.Must(t, db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("0001")); return err }))
						total := uint64(0)
						for _, f := range db.Engine.Store.Version().Values {
							total += f.Bytes
						}
						peak = max(peak, total)
					}
				}
				if ratio := float64(peak) / (keys * 5000); ratio > 1.4 {
					t.Errorf("value files reach %.2f times the live data", ratio)
				}
				testkit.Must(t, db.Close())
			})
		})
	}
}

// Neither a program that watches statistics nor the jobs themselves count as readers.
func TestHold_StatsAreNoReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := inside.Open("/db", &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20}, work.Executor{})
		testkit.Must(t, err)
		setEach(t, db, 0, 1000, 1)
		for from := range 3 {
			setEach(t, db, from, 1000, 4)
		}
		loaded := time.Now()
		for db.Stats().CollectedBytes == 0 && time.Since(loaded) < time.Minute {
			time.Sleep(20 * time.Millisecond)
		}
		if took := time.Since(loaded); took > 3*time.Second {
			t.Errorf("collection begins %s after the load", took)
		}
		testkit.Must(t, db.Close())
	})
}

// Commits do not end a gathering that takes a moment. A disk that others fill does.
func TestGathering_APatientOneEndsWhenSpaceBecomesScarce(t *testing.T) {
	t.Parallel()
	const capacity = 1 << 30
	mem := memfs.New()
	mem.SetCapacity(capacity)
	faults := faultfs.New(mem)
	s := &gatherScene{T: t, keys: 1800, disk: &openCount{FS: faults}, opts: stoat.Options{MemtableSize: 64 << 10}}
	s.open()
	s.scatter(gatherFiles, 1)
	plan, due := s.db.Engine.Jobs.PickGathering(false)
	if !due || !plan.Patient {
		t.Fatalf("a gathering is due: %t, patient: %t", due, plan.Patient)
	}
	begun := false
	faults.Observe(func(op vfs.Op) {
		if op.Category != vfs.CatValue || op.Kind != vfs.OpCreate || begun {
			return
		}
		begun = true
		free, err := faults.Free("/db")
		testkit.Must(t, err)
		_, reserve, _, _ := s.db.Engine.Space.Usage()
		mem.SetCapacity(capacity - int64(free) + reserve - 1)
		s.db.Engine.Space.Look()
		if !s.db.Engine.Space.Scarce() {
			t.Error("space is not scarce")
		}
	})
	s.must(s.db.Engine.Jobs.Run(plan, s.db.Engine.Group.Err, nil))
	faults.Observe(nil)
	if moved := s.db.Stats().GatheredBytes; !begun || moved > 600_000 {
		t.Errorf("%d bytes were moved, the disk was filled: %t", moved, begun)
	}
	mem.SetCapacity(capacity)
	s.mustHaveAll()
	s.must(s.db.Close())
}
