package model

import (
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// snapshotKinds are the operations with snapshots.
var snapshotKinds = []opKind{{"snapshot", 3, opSnapshot}}

// opSnapshot takes a snapshot, goes on writing, and demands that the snapshot has not
// changed, also not by the time.
func opSnapshot(r *Run, rng *rand.Rand) error {
	if !r.still { // otherwise nothing tells which time the snapshot has
		return nil
	}
	if err := r.settle(); err != nil {
		return err
	}
	s, err := r.DB.Snapshot(stoat.SnapshotOptions{})
	if err != nil {
		return err
	}
	defer s.Close()
	now, at := r.clock.Seen(), r.Model.Last()
	r.say("snapshot at %d", at)
	if s.Version() != at {
		return fmt.Errorf("a snapshot has version %d, want %d", s.Version(), at)
	}
	for range rng.IntN(20) {
		p, err := r.Begin(true)
		if err != nil {
			return err
		}
		v := r.value(rng)
		if rng.IntN(3) == 0 {
			v = model.Version{Deleted: true}
		}
		if err := r.Write(p, r.keys.pick(rng), v); err != nil {
			return err
		}
		if err := r.commit(p, 0); err != nil {
			return err
		}
	}
	if err := opClockForward(r, rng); err != nil {
		return err
	}
	if rng.IntN(3) == 0 {
		if err := testkit.WaitForFlushes(r.DB); err != nil {
			return err
		}
	}
	for range 2 {
		err := s.View(func(tx stoat.Txn) error {
			if err := testkit.Compare(r.in(tx), r.Model, now); err != nil {
				return fmt.Errorf("snapshot: %w", err)
			}
			return r.verifySpaces(tx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
