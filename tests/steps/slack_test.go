package steps

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A load that replaces some values leaves garbage to the time after it. Overwriting leaves as
// little as ever.
func TestSlack_AGrowingDatabaseCollectsLessBesideWriters(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"flushed values": 600, "values of large commits": 4 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openStillWith(t, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable})
			const added, replaced, rounds = 40, 20, 20
			for round := range rounds {
				setValues(t, db, round*added, added, length)
				if round > 0 {
					setValues(t, db, (round-1)*added, replaced, length)
				}
				mustFlush(t, db)
			}
			testkit.Must(t, mergeAll(db))
			if share := garbageShare(db); share < 0.25 || share > 0.35 {
				t.Fatalf("%.2f of the values are garbage, which is not between the bounds", share)
			}
			expectSlack(t, db, "after a load", 2.5, true)
			for round := range rounds {
				setValues(t, db, round*added, added, length)
				mustFlush(t, db)
			}
			testkit.Must(t, mergeAll(db))
			expectSlack(t, db, "after overwriting", 1, false)
		})
	}
}

// expectSlack checks the slack, that the jobs go by it, and whether the collector rests beside
// writers.
func expectSlack(t *testing.T, db *inside.DB, when string, want float64, rests bool) {
	t.Helper()
	if got := db.Engine.Throttle.Slack(); got != want {
		t.Errorf("%s: a slack of %.2f, want %.2f", when, got, want)
	}
	if got := db.Engine.Jobs.Shape(work.Busy, 0).Slack; got != want {
		t.Errorf("%s: compaction goes by a slack of %.2f, want %.2f", when, got, want)
	}
	if b := db.Engine.Collector.Pick(values.Busy); b.Empty() != rests {
		t.Errorf("%s: the collector rests beside writers: %t, want %t", when, !rests, rests)
	}
	if b := db.Engine.Collector.Pick(values.Idle); b.Empty() {
		t.Errorf("%s: the collector rests while nothing else happens", when)
	}
}

// setValues commits values of some keys.
func setValues(t *testing.T, db *inside.DB, from, n, length int) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range n {
			if err := tx.Set(fmt.Appendf(nil, "%06d", from+i), bytes.Repeat([]byte("v"), length)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// garbageShare returns which part of all value files is garbage.
func garbageShare(db *inside.DB) float64 {
	s := db.Stats()
	return float64(s.ValueGarbage) / float64(s.ValueBytes)
}
