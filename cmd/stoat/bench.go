package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/cmd/stoat/internal/bench"
)

// runBench fills and measures a temporary database.
func runBench(ctx context.Context, c *call, args []string) (err error) {
	var (
		keys      = number(1_000_000)
		valueSize = number(128)
		batch     = number(1000)
		writers   = number(8)
		apart     = number(0)
		large     = number(0)
		overwrite = number(0)
		readers   = number(2)
		cfg       = bench.Config{Seed: 1, Out: c.out, Progress: c.err, Terminal: isTerminal(c.err)}
		cpu, heap string
		compress  = "none"
		encrypt   bool
	)
	c.flags.Var(&keys, "keys", "load this `number` of keys")
	c.flags.Var(&valueSize, "value-size", "load values of this many `bytes`")
	c.flags.Var(&batch, "batch", "load this `number` of keys per transaction")
	c.flags.Var(&writers, "writers", "load with this `number` of goroutines")
	c.flags.Var(&apart, "value-threshold", "store values of at least this many `bytes` in value files (0 means the database's default)")
	c.flags.Var(&large, "large-value-threshold", "in large transactions, write values of at least this many `bytes` straight to value files (0 means the database's default)")
	c.flags.StringVar(&compress, "compression", compress, "compress values with this `setting`: none, fast or small")
	c.flags.BoolVar(&encrypt, "encrypt", false, "encrypt the database with a random key, which the program forgets")
	c.flags.BoolVar(&cfg.Text, "text", false, "load compressible values")
	c.flags.Var(&overwrite, "overwrite", "instead of the read benchmarks, overwrite this many `times` the number of keys at random, and measure space and reads")
	c.flags.Float64Var(&cfg.Zipf, "zipf", 0, "with -overwrite: draw the keys from a Zipf distribution with this `skew`, less than 1")
	c.flags.Var(&readers, "readers", "with -overwrite: read with this `number` of goroutines while the writers run")
	c.flags.DurationVar(&cfg.RestMax, "rest", time.Minute, "with -overwrite: idle for this `time` at the end, at most a minute")
	c.flags.BoolVar(&cfg.Compact, "compact", false, "compact the database after the load")
	c.flags.BoolVar(&cfg.Settle, "settle", false, "after the load, idle until the background jobs have ended")
	c.flags.BoolVar(&cfg.Buffered, "buffered", false, "load without syncs")
	c.flags.Var((*seed)(&cfg.Seed), "seed", "derive keys, order and values from this `seed`, a number or random")
	c.flags.DurationVar(&cfg.ReadDuration, "read-duration", time.Second, "measure each kind of read for this `time`")
	c.flags.DurationVar(&cfg.CommitDuration, "commit-duration", 1500*time.Millisecond, "measure each kind of durable commit for this `time`")
	c.flags.StringVar(&cfg.Parent, "dir", "", "create the temporary database in this `directory`, not in the system's temporary one")
	c.flags.BoolVar(&cfg.Keep, "keep", false, "keep the database at the end")
	c.flags.StringVar(&cpu, "cpuprofile", "", "write a CPU profile to this `file`")
	c.flags.StringVar(&heap, "memprofile", "", "write an allocation profile to this `file`")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := c.refuseIdle(overwrite > 0); err != nil {
		return err
	}
	cfg.Keys, cfg.ValueSize, cfg.Batch, cfg.Writers = keys.count(), valueSize.count(), batch.count(), writers.count()
	cfg.Overwrite, cfg.Readers = overwrite.count(), readers.count()
	cfg.ValueThreshold, cfg.LargeValueThreshold = int64(apart), int64(large)
	var known bool
	if cfg.Compression, known = compressions[compress]; !known {
		return c.usagef("-compression is %q, want none, fast or small", compress)
	}
	if err := cfg.Validate(); err != nil {
		return c.usagef("%v", err)
	}
	if encrypt {
		if cfg.Keep {
			return c.usagef("-keep is of no use with -encrypt: the key is lost")
		}
		cfg.MasterKeys = randomKey()
	}
	stop, err := profileCPU(cpu)
	if err != nil {
		return err
	}
	defer stop()
	if err := bench.Run(ctx, cfg); err != nil {
		return c.reproducible(err)
	}
	return profileHeap(heap)
}

// randomKey returns a provider of one random master key.
func randomKey() stoat.KeyProvider {
	key := make([]byte, stoat.MasterKeySize)
	_, _ = rand.Read(key) // never fails
	return stoat.StaticKeys(stoat.MasterKey{ID: "bench", Key: key})
}

// reproducible adds to a wrong answer the command line that repeats the run, in
// a checkout of the module.
func (c *call) reproducible(err error) error {
	if !errors.Is(err, bench.ErrWrong) {
		return err
	}
	line := "go run github.com/stoatdb/stoat/cmd/stoat " + c.name
	c.flags.VisitAll(func(f *flag.Flag) {
		// Name the seed even if it is the default, which may change.
		if f.Value.String() != f.DefValue || f.Name == "seed" {
			line += " " + quoted("-"+f.Name+"="+f.Value.String())
		}
	})
	return fmt.Errorf("%w\nreproduce: %s", err, line)
}

// quoted quotes a word for a shell if necessary.
func quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-=./_:", r))
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// refuseIdle refuses flags without effect: those only for -overwrite without it,
// and those that -overwrite ignores.
func (c *call) refuseIdle(overwriting bool) (err error) {
	c.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "zipf", "readers", "rest":
			if !overwriting {
				err = c.usagef("-%s needs -overwrite", f.Name)
			}
		case "compact", "settle", "read-duration", "commit-duration":
			if overwriting {
				err = c.usagef("-%s has no effect with -overwrite", f.Name)
			}
		}
	})
	return err
}

// isTerminal reports whether w is a terminal, where a line can be redrawn.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// profileCPU starts a CPU profile if name is not empty, and returns the function
// that ends it.
func profileCPU(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "stoat: %v\n", err)
		}
	}, nil
}

// profileHeap writes an allocation profile if name is not empty.
func profileHeap(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
		return err
	}
	return f.Close()
}
