package main

import (
	"context"
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

// runBench measures a temporary database.
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
	)
	c.flags.Var(&keys, "keys", "load this `number` of keys")
	c.flags.Var(&valueSize, "value-size", "give each a value of this many `bytes`")
	c.flags.Var(&batch, "batch", "load this `number` of keys in one transaction")
	c.flags.Var(&writers, "writers", "load with this `number` of goroutines")
	c.flags.Var(&apart, "value-threshold", "keep values from so many `bytes` on apart (0: as the database does)")
	c.flags.Var(&large, "large-value-threshold", "write values from so many `bytes` on once (0: as the database does)")
	c.flags.StringVar(&compress, "compression", compress, "compress values by this `setting`: none, fast or small")
	c.flags.BoolVar(&cfg.Text, "text", false, "load values that can be compressed")
	c.flags.Var(&overwrite, "overwrite", "instead of the rest, overwrite this many `times` the keys, at random, and look at space and reads meanwhile")
	c.flags.Float64Var(&cfg.Zipf, "zipf", 0, "draw what is overwritten by Zipf's law with this `skew`, less than 1")
	c.flags.Var(&readers, "readers", "read with this `number` of goroutines beside the overwriting")
	c.flags.DurationVar(&cfg.RestMax, "rest", time.Minute, "leave the database alone for this `time` after the overwriting, a minute at most")
	c.flags.BoolVar(&cfg.Compact, "compact", false, "merge everything after the load")
	c.flags.BoolVar(&cfg.Settle, "settle", false, "leave the database alone after the load until it has nothing to do")
	c.flags.BoolVar(&cfg.Buffered, "buffered", false, "load without waiting for the device")
	c.flags.Var((*seed)(&cfg.Seed), "seed", "`seed` of the keys, their order and the values, or random")
	c.flags.DurationVar(&cfg.ReadDuration, "read-duration", time.Second, "measure each read for this `time`")
	c.flags.DurationVar(&cfg.CommitDuration, "commit-duration", 1500*time.Millisecond, "measure each kind of durable commit for this `time`")
	c.flags.StringVar(&cfg.Parent, "dir", "", "make the temporary database in this `folder` rather than in the system's")
	c.flags.BoolVar(&cfg.Keep, "keep", false, "leave the database there")
	c.flags.StringVar(&cpu, "cpuprofile", "", "write a CPU profile to this `file`")
	c.flags.StringVar(&heap, "memprofile", "", "write a profile of all allocations to this `file`")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	if err := c.refuseIdle(overwrite > 0); err != nil {
		return err
	}
	cfg.Keys, cfg.ValueSize, cfg.Batch, cfg.Writers = int(keys), int(valueSize), int(batch), int(writers)
	cfg.Overwrite, cfg.Readers = int(overwrite), int(readers)
	cfg.ValueThreshold, cfg.LargeValueThreshold = int64(apart), int64(large)
	var known bool
	if cfg.Compression, known = compressions[compress]; !known {
		return c.usagef("-compression is %q, want none, fast or small", compress)
	}
	if err := cfg.Validate(); err != nil {
		return c.usagef("%v", err)
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

// reproducible adds to a wrong answer the line that runs the same again, in the
// sources of the module.
func (c *call) reproducible(err error) error {
	if !errors.Is(err, bench.ErrWrong) {
		return err
	}
	line := "go run github.com/stoatdb/stoat/cmd/stoat " + c.name
	c.flags.VisitAll(func(f *flag.Flag) {
		// The seed is told always: another default would be another run.
		if f.Value.String() != f.DefValue || f.Name == "seed" {
			line += " " + quoted("-"+f.Name+"="+f.Value.String())
		}
	})
	return fmt.Errorf("%w\nreproduce: %s", err, line)
}

// quoted makes a shell take a word as it is.
func quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-=./_:", r))
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// refuseIdle refuses flags that would say nothing: those that are only for a run
// that overwrites, or only for one that does not.
func (c *call) refuseIdle(overwriting bool) (err error) {
	c.flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "zipf", "readers", "rest":
			if !overwriting {
				err = c.usagef("-%s is for -overwrite only", f.Name)
			}
		case "compact", "settle", "read-duration", "commit-duration":
			if overwriting {
				err = c.usagef("-%s has no part in what -overwrite does", f.Name)
			}
		}
	})
	return err
}

// compressions are the words for the settings of the database.
var compressions = map[string]stoat.Compression{
	"none": stoat.CompressionNone, "fast": stoat.CompressionFast, "small": stoat.CompressionSmall,
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

// profileCPU starts a profile into a file, if one is named, and returns what
// ends it.
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

// profileHeap writes a profile of allocations into a file, if one is named.
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
