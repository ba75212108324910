package mixture

import (
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// reopen closes the database and opens it again.
func (r *run) reopen() error {
	r.release()
	if err := r.db.Close(); err != nil {
		return err
	}
	r.durable = r.last
	return r.again(r.last)
}

// kill leaves the database without a close.
func (r *run) kill() error {
	r.leave(r.fs.Clone())
	return r.again(r.last)
}

// cut cuts the power.
func (r *run) cut() error {
	r.leave(testkit.RandomCut(r.rng)(r.fs))
	return r.again(r.durable)
}

// leave ends the database and goes on with a disk that was copied before.
func (r *run) leave(disk *memfs.FS) {
	r.release()
	_ = r.db.Close() // it closes files of a disk that is not used again
	r.fs = disk
}

// again opens the database, which must be at a version from floor to the last one.
func (r *run) again(floor uint64) error {
	if r.opts.Keys != nil {
		if err := testkit.NoSentinel(r.fs, r.dir); err != nil {
			return err
		}
	}
	r.drawOptions()
	if err := r.open(); err != nil {
		return err
	}
	return r.settle(floor)
}

// drawOptions draws the options of the next open. An option without a value leaves what is
// stored.
func (r *run) drawOptions() {
	r.opts = stored(r.opts)
	o := &r.opts
	if r.rng.IntN(3) == 0 {
		o.NumVersions = 1 + r.rng.IntN(3)
		r.change(r.spaces[0], settings{versions: o.NumVersions})
	}
	if r.rng.IntN(4) == 0 {
		o.ValueThreshold = 64 + r.rng.Int64N(1000)
		o.LargeValueThreshold = o.ValueThreshold + r.rng.Int64N(4000)
	}
	if r.rng.IntN(3) == 0 {
		o.Compression = testkit.Compressions[r.rng.IntN(3)]
	}
}

// stored returns options that leave all settings as they are stored.
func stored(o stoat.Options) stoat.Options {
	o.NumVersions, o.ValueThreshold, o.LargeValueThreshold, o.Compression = 0, 0, 0, 0
	return o
}

// settle makes the model agree with the version that was opened, and compares all of it.
func (r *run) settle(floor uint64) error {
	version, err := testkit.VersionOf(r.db)
	if err != nil {
		return err
	}
	if version < floor || version > r.last {
		return fmt.Errorf("opened at %d, want %d to %d", version, floor, r.last)
	}
	r.note("  opened at %d of %d", version, r.last)
	r.last, r.durable = version, version
	for _, s := range r.spaces {
		s.truncate(version)
		if s.dropped > version {
			return fmt.Errorf("the drop of %v at %d is not durable", s, s.dropped)
		}
	}
	if r.backups.newest().Version > version { // a failed database may have made it
		r.backups = chain{}
	}
	if err := r.handles(); err != nil {
		return err
	}
	return r.verify()
}
