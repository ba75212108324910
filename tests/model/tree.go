package model

import (
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// What makes the tree work: memtables that fill, flushes, compactions.

// Work counts what a run did: calls of the database, and what those came to.
type Work struct {
	calls int64
	Tally *testkit.WorkTally
}

// opFill commits about as much as a small memtable holds, in transactions that
// overwrite and delete, some of them under a snapshot that stays.
func opFill(r *Run, rng *rand.Rand) error {
	for filled := 0; filled < testkit.SmallMemtable; {
		p, err := r.Begin(true)
		if err != nil {
			return err
		}
		for range 1 + rng.IntN(20) {
			v := r.value(rng)
			v.Value += strings.Repeat("+", rng.IntN(4<<10))
			switch rng.IntN(6) {
			case 0:
				v = model.Version{Deleted: true}
			case 1:
				v.ExpiresAt = r.clock.Seen() + uint64(rng.IntN(30))
			}
			filled += len(v.Value) + 40
			if err := r.Write(p, r.keys.pick(rng), v); err != nil {
				return err
			}
		}
		if err := r.commit(p, stoat.Buffered); err != nil {
			return err
		}
	}
	return nil
}

// opWaitForFlushes waits until everything but one memtable is in tables, so
// that what follows reads them.
func opWaitForFlushes(r *Run, _ *rand.Rand) error {
	if err := r.settle(); err != nil {
		return err
	}
	r.say("wait for the flushes")
	return testkit.WaitForFlushes(r.DB)
}
