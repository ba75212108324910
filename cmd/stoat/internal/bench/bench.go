package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/stoatdb/stoat"
)

// Config says what to run. Every field must be set.
type Config struct {
	// Parent is the directory in which the database gets a directory of its
	// own; empty means the system's for temporary files.
	Parent string
	// Keep leaves the database there.
	Keep bool

	Keys      int // loaded
	ValueSize int // bytes
	Batch     int // keys in a transaction of the load
	Writers   int // goroutines that load
	Buffered  bool
	Seed      uint64
	// Overwrite makes another benchmark of it: after the load, so many times
	// as many writes to keys drawn at random, and then rest. 0: none.
	Overwrite int
	// Zipf is the skew of what is overwritten, less than 1; 0 is none.
	Zipf float64
	// Readers is how many goroutines read beside.
	Readers int
	// RestMax bounds the rest.
	RestMax time.Duration
	// Compact merges everything after the load, so that what is measured
	// then is the database at rest.
	Compact bool
	// Settle leaves the database alone after the load until it has nothing more
	// to do, so that what is measured then is a database that has come to rest.
	Settle bool
	// ValueThreshold and LargeValueThreshold are options of the database; 0
	// leaves them to it.
	ValueThreshold, LargeValueThreshold int64
	// Compression is that of the database.
	Compression stoat.Compression
	// Text makes values that can be compressed.
	Text bool

	// ReadDuration is how long each read is measured, CommitDuration each
	// kind of commit.
	ReadDuration   time.Duration
	CommitDuration time.Duration

	// Out receives the report, Progress what is only of interest meanwhile.
	Out, Progress io.Writer
	// Terminal says that Progress is a terminal.
	Terminal bool
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	const keysMax = 4_000_000_000
	for _, f := range []struct {
		name      string
		value     int64
		low, high int64
	}{
		{"keys", int64(c.Keys), 1, keysMax},
		{"value-size", int64(c.ValueSize), 0, 1 << 30},
		{"batch", int64(c.Batch), 1, keysMax},
		{"writers", int64(c.Writers), 1, 10_000},
		{"read-duration", int64(c.ReadDuration), 1, int64(time.Hour)},
		{"commit-duration", int64(c.CommitDuration), 1, int64(time.Hour)},
		{"overwrite", int64(c.Overwrite), 0, 1000},
		{"readers", int64(c.Readers), 0, 10_000},
		{"rest", int64(c.RestMax), 0, int64(restFor)},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.low, f.high)
		}
	}
	if !(c.Zipf >= 0 && c.Zipf < 1) { // nor is it no number
		return fmt.Errorf("zipf is %v, want 0 or more and less than 1", c.Zipf)
	}
	return nil
}

// A Bench is one run.
type Bench struct {
	cfg      Config
	work     workload
	oracle   *oracle
	db       *stoat.DB
	dir      string // of the database
	progress *progress
	report   *report
	memory   *memoryWatch

	verified uint64 // values compared byte by byte
	checked  uint64 // reads compared by their ends, or found rightly absent
}

// Run runs the benchmark. It returns an error that is ErrWrong when the
// database gave a wrong answer, and the error of ctx when that ended first.
// The database is removed in every case, unless it is to be kept.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	parent, err := os.MkdirTemp(cfg.Parent, "stoat-bench-")
	if err != nil {
		return err
	}
	b := newBench(cfg, filepath.Join(parent, "db"))
	defer func() { err = errors.Join(err, b.cleanUp(parent)) }()
	b.memory = watchMemory()
	defer b.memory.stop()
	b.report.header(&b.cfg, &b.work, b.dir)
	return b.phases(ctx)
}

// newBench returns a run with a database in dir.
func newBench(cfg Config, dir string) *Bench {
	b := &Bench{
		cfg:      cfg,
		dir:      dir,
		work:     newWorkload(cfg.Keys, cfg.ValueSize, cfg.Seed),
		progress: &progress{w: cfg.Progress, terminal: cfg.Terminal},
		report:   &report{w: cfg.Out},
	}
	b.work.text = cfg.Text
	b.oracle = newOracle(b.work.space)
	return b
}

// phases runs one phase after the other.
func (b *Bench) phases(ctx context.Context) error {
	all := b.everything()
	if b.cfg.Overwrite > 0 {
		all = b.overwriting()
	}
	for _, phase := range all {
		if err := phase(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	b.report.footer(b)
	return nil
}

type phase = func(context.Context) error

// everything is the phases of a load and of all that can be done with it.
func (b *Bench) everything() []phase {
	return []phase{
		b.create,
		b.load,
		b.compact,
		b.settle,
		b.close("close after the load"),
		b.open("open, clean"),
		b.verify,
		b.views,
		b.gets,
		b.scans,
		b.seeks,
		b.commits,
		b.close("close after the commits"),
		b.open("open, clean"),
		b.verify,
		b.close("close, nothing written"),
	}
}

// overwriting is the phases of a churn.
func (b *Bench) overwriting() []phase {
	return []phase{
		b.create,
		b.churn,
		b.close("close after the rest"),
		b.open("open, clean"),
		b.verify,
		b.close("close, nothing written"),
	}
}

// options are the options of the database.
func (b *Bench) options() *stoat.Options {
	o := &stoat.Options{ValueThreshold: b.cfg.ValueThreshold, LargeValueThreshold: b.cfg.LargeValueThreshold,
		Compression: b.cfg.Compression}
	if b.cfg.Buffered {
		o.Durability = stoat.Buffered
	}
	return o
}

// create makes the database.
func (b *Bench) create(context.Context) (err error) {
	b.db, err = stoat.Open(b.dir, b.options())
	return err
}

// compact is the phase that merges everything, if that is wanted.
func (b *Bench) compact(ctx context.Context) error {
	if !b.cfg.Compact {
		return nil
	}
	return b.once("compact", func() error { return b.db.Compact(ctx, stoat.CompactOptions{}) })(ctx)
}

// settle is the phase that leaves the database alone until it writes nothing any
// more, if that is wanted. What it reports is when the last of that was done; what it
// wrote counts as the load's.
func (b *Bench) settle(ctx context.Context) error {
	if !b.cfg.Settle {
		return nil
	}
	defer b.progress.watch("settle", nil)()
	written, counted := deviceBytesWritten()
	began := time.Now()
	last, at := behind(b.db), began
	for time.Since(at) < stillFor {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleStep):
		}
		if now := behind(b.db); now != last {
			last, at = now, time.Now()
		}
	}
	if now, ok := deviceBytesWritten(); ok && counted {
		b.report.loadWritten += now - written
	}
	b.report.once("settle", at.Sub(began))
	return nil
}

// A database that has written nothing for stillFor has come to rest: what it puts
// off until nobody works, it begins after a second.
const (
	stillFor   = 5 * time.Second
	settleStep = 20 * time.Millisecond
)

// behind returns how many bytes a database has written that nobody waits for.
func behind(db *stoat.DB) int64 {
	s := db.Stats()
	return s.FlushedBytes + s.CompactedBytes + s.CollectedBytes + s.GatheredBytes
}

// close returns the phase that closes the database and reports how long that
// took.
func (b *Bench) close(name string) func(context.Context) error {
	return b.once(name, func() error {
		db := b.db
		b.db = nil
		return db.Close()
	})
}

// open returns the phase that opens the database again and reports how long
// that took.
func (b *Bench) open(name string) func(context.Context) error {
	return b.once(name, func() error { return b.create(context.Background()) })
}

// once returns a phase that does something one time.
func (b *Bench) once(name string, do func() error) func(context.Context) error {
	return func(context.Context) error {
		stop := b.progress.watch(name, nil)
		began := time.Now()
		err := do()
		took := time.Since(began)
		stop()
		if err == nil {
			b.report.once(name, took)
		}
		return err
	}
}

// cleanUp closes what is open and removes what was made.
func (b *Bench) cleanUp(parent string) error {
	var err error
	if b.db != nil {
		err = b.db.Close()
	}
	if b.cfg.Keep {
		fmt.Fprintf(b.cfg.Out, "\nThe database is kept in %s\n", b.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(parent))
}
