package model

import (
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// What happens to a database from outside: its clock is turned, it is closed,
// its process dies, its machine loses power.

func opClockForward(r *Run, rng *rand.Rand) error {
	if r.still {
		return nil
	}
	ms := r.clock.Ms.Add(int64(rng.IntN(20)))
	r.say("clock at %d", ms)
	return nil
}

func opClockBack(r *Run, rng *rand.Rand) error {
	if r.still {
		return nil
	}
	// A background job may have loaded the time and not have told the database
	// yet.
	if err := r.lookAtClock(); err != nil {
		return err
	}
	ms := r.clock.Ms.Add(-int64(rng.IntN(100)))
	r.say("clock at %d", ms)
	return nil
}

// OpReopen closes the database and opens it again: nothing is lost.
func OpReopen(r *Run, _ *rand.Rand) error {
	r.say("close and open at %d", r.Model.Last())
	if err := r.Close(); err != nil {
		return err
	}
	r.Opts.Compression = r.Opts.Compression%3 + 1 // any may follow any
	_, err := r.Open(r.Model.Last(), r.Model.Last())
	return err
}

// opKill is the death of the process: what was acknowledged stays, buffered
// commits too.
func opKill(r *Run, _ *rand.Rand) error {
	disk, floor := r.FS.Clone(), r.known
	return r.crashed(disk, floor)
}

// OpPowerCut takes what no sync has covered, in one of many ways.
func OpPowerCut(r *Run, rng *rand.Rand) error {
	floor := r.durable
	kinds := memfs.CrashKinds()
	kind := kinds[rng.IntN(len(kinds))]
	r.say("power cut, %v", kind)
	return r.crashed(r.FS.Crash(kind, rng), floor)
}

func (r *Run) crashed(disk *memfs.FS, floor uint64) error {
	if err := r.Abandon(disk); err != nil {
		return err
	}
	version, err := r.Open(floor, r.Model.Last())
	r.say("crash after %d: opened at %d, at least %d", r.Model.Last(), version, floor)
	if err != nil {
		return err
	}
	r.Model.Truncate(version)
	// What recovery showed must not be lost by a later crash either.
	r.known, r.durable = version, version
	return r.lookAtClock()
}

// lookAtClock makes the database ask for the time, without a trace.
func (r *Run) lookAtClock() error {
	tx, err := r.DB.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	return tx.Set([]byte("k"), nil, stoat.TTL(time.Second))
}
