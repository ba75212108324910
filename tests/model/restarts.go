package model

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// What happens to a database from outside: its clock is turned, it is closed,
// its process dies, its machine loses power.

func opClockForward(r *Run, rng *rand.Rand) error {
	if r.still || len(r.asyncs) > 0 { // which commit at a time that the model knows
		return nil
	}
	// From the highest time on: otherwise opClockBack would keep the clock behind it.
	ms := int64(r.clock.Seen()) + int64(rng.IntN(20))
	r.clock.Ms.Store(ms)
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
func OpReopen(r *Run, rng *rand.Rand) error {
	r.say("close and open at %d", r.Model.Last())
	if err := r.Close(); err != nil {
		return err
	}
	r.drawSettings(rng)
	_, err := r.Open(r.Model.Last(), r.Model.Last())
	return err
}

// drawSettings draws the settings of the next open. Each may follow any other. A
// setting that the options leave out stays as it is.
func (r *Run) drawSettings(rng *rand.Rand) {
	o := &r.Opts
	if rng == nil {
		o.Compression = o.Compression%3 + 1
		return
	}
	o.Compression, o.NumVersions, o.ValueThreshold, o.LargeValueThreshold, o.MergeFunction = 0, 0, 0, 0, ""
	if rng.IntN(2) == 0 {
		o.Compression = testkit.Compressions[rng.IntN(len(testkit.Compressions))]
	}
	if rng.IntN(3) == 0 {
		o.NumVersions = 1 + rng.IntN(3)
	}
	if rng.IntN(4) == 0 {
		o.ValueThreshold = 64 + rng.Int64N(1000)
		o.LargeValueThreshold = o.ValueThreshold + rng.Int64N(4000)
	}
	r.say("settings of the options: %d versions, compression %d, thresholds %d and %d",
		o.NumVersions, o.Compression, o.ValueThreshold, o.LargeValueThreshold)
}

// checkSettings compares the settings of the database, which was just opened, with the
// stored ones and the changes of the options.
func (r *Run) checkSettings() error {
	got, o := r.DB.Settings(), &r.Opts
	want := got
	if r.settings != nil {
		want = *r.settings
	}
	if !o.ReadOnly {
		change(&want.Compression, o.Compression)
		change(&want.NumVersions, o.NumVersions)
		change(&want.MergeFunction, o.MergeFunction)
		change(&want.ValueThreshold, o.ValueThreshold)
		change(&want.LargeValueThreshold, o.LargeValueThreshold)
	}
	if got != want {
		return fmt.Errorf("settings %+v, want %+v", got, want)
	}
	r.settings = &want
	if r.home == "" {
		r.Model.SetVersions(want.NumVersions)
	}
	return nil
}

// change sets a stored setting to that of the options, unless they leave it out.
func change[T comparable](stored *T, option T) {
	var none T
	if option != none {
		*stored = option
	}
}

// opKill is the death of the process: what was acknowledged stays, buffered
// commits too.
func opKill(r *Run, rng *rand.Rand) error {
	disk, floor := r.FS.Clone(), r.known
	r.drawSettings(rng)
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
	r.truncateMarks(version)
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
	return r.in(tx).Set([]byte("k"), nil, stoat.TTL(time.Second))
}
