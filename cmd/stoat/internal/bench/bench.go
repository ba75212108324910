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

// Config is the configuration of a run. Every field must be set, except MasterKeys.
type Config struct {
	// Parent is the directory in which Run creates the directory of the
	// database. Empty means the system's temporary directory.
	Parent string
	// Keep keeps the database after the run.
	Keep bool

	Keys      int  // keys to load
	ValueSize int  // bytes
	Batch     int  // keys per transaction of the load
	Writers   int  // goroutines that load
	Buffered  bool // load without syncs
	Seed      uint64
	// Overwrite replaces the read benchmarks by a churn: after the load, it
	// overwrites this many times the number of keys at random, and then idles.
	// 0 means no churn.
	Overwrite int
	// Zipf is the skew of the overwritten keys, less than 1. 0 means uniform.
	Zipf float64
	// Readers is the number of goroutines that read beside the writers of a
	// churn.
	Readers int
	// RestMax is the longest idle time at the end of a churn.
	RestMax time.Duration
	// Compact compacts the database after the load.
	Compact bool
	// Settle idles after the load until the background jobs have ended.
	Settle bool
	// ValueThreshold and LargeValueThreshold are options of the database. 0
	// means its default.
	ValueThreshold, LargeValueThreshold int64
	// Compression is an option of the database.
	Compression stoat.Compression
	// Text makes compressible values.
	Text bool
	// MasterKeys is Options.Keys of the database. Nil means that it is not encrypted.
	MasterKeys stoat.KeyProvider

	// ReadDuration is the time to measure each kind of read. CommitDuration is
	// the time to measure each kind of commit.
	ReadDuration   time.Duration
	CommitDuration time.Duration

	// Out receives the report. Progress receives lines about the progress.
	Out, Progress io.Writer
	// Terminal says that Progress is a terminal.
	Terminal bool
}

// Validate returns an error that names the first field out of range.
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
		{"overwrite", int64(c.Overwrite), 0, 1000},
		{"readers", int64(c.Readers), 0, 10_000},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.low, f.high)
		}
	}
	for _, f := range []struct {
		name             string
		value, low, high time.Duration
	}{
		{"read-duration", c.ReadDuration, 1, time.Hour},
		{"commit-duration", c.CommitDuration, 1, time.Hour},
		{"rest", c.RestMax, 0, restFor},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("%s is %v, want %v to %v", f.name, f.value, f.low, f.high)
		}
	}
	if c.Overwrite > 0 && c.Writers > c.Keys {
		// Only one goroutine may write a key.
		return fmt.Errorf("writers is %d, want at most the number of keys, %d, with overwrite", c.Writers, c.Keys)
	}
	if !(c.Zipf >= 0 && c.Zipf < 1) { // refuses NaN too
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

	verified uint64 // values with every byte verified
	checked  uint64 // reads with the ends of the value verified, or correctly absent
}

// Run runs the benchmark. It returns ErrWrong if the database gave a wrong
// answer, and the error of ctx if ctx ended first. Unless Config.Keep is set, it
// removes the database in every case.
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

// phases runs the phases in sequence.
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

// everything returns the phases of a run without a churn.
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

// overwriting returns the phases of a run with a churn.
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

// options returns the options of the database.
func (b *Bench) options() *stoat.Options {
	o := &stoat.Options{ValueThreshold: b.cfg.ValueThreshold, LargeValueThreshold: b.cfg.LargeValueThreshold,
		Compression: b.cfg.Compression, Keys: b.cfg.MasterKeys}
	if b.cfg.Buffered {
		o.Durability = stoat.Buffered
	}
	return o
}

// create opens the database, or creates it.
func (b *Bench) create(context.Context) (err error) {
	b.db, err = stoat.Open(b.dir, b.options())
	return err
}

// compact is the phase that compacts the database, if Config.Compact is set.
func (b *Bench) compact(ctx context.Context) error {
	if !b.cfg.Compact {
		return nil
	}
	return b.once("compact", func() error { return b.db.Compact(ctx, stoat.CompactOptions{}) })(ctx)
}

// settle is the phase that idles until the background jobs write nothing more, if
// Config.Settle is set. It reports the time of the last write. The bytes written
// count as part of the load.
func (b *Bench) settle(ctx context.Context) error {
	if !b.cfg.Settle {
		return nil
	}
	defer b.progress.watch("settle", nil)()
	written, counted := deviceBytesWritten()
	began := time.Now()
	last, at := backgroundBytes(b.db), began
	for time.Since(at) < stillFor {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleStep):
		}
		if now := backgroundBytes(b.db); now != last {
			last, at = now, time.Now()
		}
	}
	if now, ok := deviceBytesWritten(); ok && counted {
		b.report.loadWritten += now - written
	}
	b.report.once("settle", at.Sub(began))
	return nil
}

const (
	// stillFor is the time without background writes after which a database is
	// settled. Idle work begins after one second.
	stillFor = 5 * time.Second
	// settleStep is the time between two checks.
	settleStep = 20 * time.Millisecond
)

// backgroundBytes returns how many bytes the background jobs have written.
func backgroundBytes(db *stoat.DB) int64 {
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

// once returns a phase that calls do once and reports how long it took.
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

// cleanUp closes and removes the database.
func (b *Bench) cleanUp(parent string) error {
	var err error
	if b.db != nil {
		err = b.db.Close()
	}
	if b.cfg.Keep {
		fmt.Fprintf(b.cfg.Out, "\nThe database is in %s\n", b.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(parent))
}
