package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stoatdb/stoat"
)

// runCheck verifies all files of a database.
func runCheck(ctx context.Context, c *call, args []string) error {
	var quiet, repair bool
	c.flags.BoolVar(&quiet, "quiet", false, "print only problems")
	c.flags.BoolVar(&repair, "repair", false, "first rebuild damaged parts that the rest of a table determines")
	rest, err := c.parse(args, 1, 1)
	if err == nil && repair {
		err = c.repair(ctx, rest[0])
	}
	if err != nil {
		return err
	}
	db, err := c.openToCheck(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		line := c.newLine(quiet)
		report, err := db.Check(ctx, stoat.CheckOptions{Progress: func(p stoat.CheckProgress) {
			line.show("checked", p.Done, p.Total)
		}})
		line.clear()
		if report == nil || err != nil && len(report.Problems) == 0 {
			return err
		}
		for _, problem := range report.Problems {
			fmt.Fprintln(c.out, problem)
		}
		if n := len(report.Problems); n > 0 {
			return problemsError(rest[0], n, err)
		}
		if quiet {
			return nil
		}
		for _, warning := range report.Warnings {
			fmt.Fprintln(c.out, "warning:", warning)
		}
		fmt.Fprintf(c.out, "%d tables, %d value files, %s, %d versions of keys, %d values in value files, %d transactions in the log: no problems\n",
			report.Tables, report.Values, bytesText(report.Bytes), report.Entries, report.Pointers, report.LogRecords)
		return nil
	})
}

// problemsError returns the error of a check of dir that found n problems, at least one, and
// returned err. After a check that finished, err only joins the problems.
func problemsError(dir string, n int, err error) error {
	if errors.Is(err, stoat.ErrCorrupt) {
		return fmt.Errorf("problems in %s: %d; %s", dir, n, salvageHint)
	}
	return fmt.Errorf("problems in %s: %d so far; %s; the check did not finish: %w", dir, n, salvageHint, err)
}

// runCheckpoint copies a database.
func runCheckpoint(ctx context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 2, 2)
	if err != nil {
		return err
	}
	db, err := c.openBeside(rest[0])
	return with(db, err, func(db *stoat.DB) error { return db.Checkpoint(ctx, rest[1]) })
}

// runUpgrade brings a database to the newest format of this program.
func runUpgrade(_ context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if err := c.checkUser(rest[0]); err != nil {
		return err
	}
	report, err := stoat.Upgrade(rest[0], withFunctions(&stoat.Options{Keys: c.keysOf(rest[0])}))
	if err != nil {
		return c.unopened(rest[0], err)
	}
	if was, now := report.Was.Version, report.Now.Version; was == now {
		fmt.Fprintf(c.out, "already at format %d\n", now)
	} else {
		fmt.Fprintf(c.out, "upgraded from format %d to format %d\n", was, now)
	}
	if report.StoredSettings {
		fmt.Fprintln(c.out, "stored the settings in the database")
	}
	printFeatures(c.out, report.Now)
	return nil
}

// printFeatures prints the features of a database, or that it uses none.
func printFeatures(out io.Writer, f stoat.Format) {
	fmt.Fprintf(out, "features\t%s\n", listOf(f.RequiredFeatures))
	if len(f.OptionalFeatures) > 0 {
		fmt.Fprintf(out, "optional features\t%s\n", listOf(f.OptionalFeatures))
	}
}

// listOf returns names with commas, or "none".
func listOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// runCompact reclaims the space of all deleted data.
func runCompact(ctx context.Context, c *call, args []string) error {
	text := textFlag(c)
	var o stoat.CompactOptions
	var from, to string
	c.flags.StringVar(&from, "from", "", "compact only keys from this `key` on")
	c.flags.StringVar(&to, "to", "", "compact only keys below this `key`")
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	err = c.decodeFlags(text, keyFlag{"from", from, &o.Lower}, keyFlag{"to", to, &o.Upper})
	if err != nil {
		return err
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		line := c.newLine(false)
		o.Progress = func(p stoat.CompactProgress) { line.show("compacted", p.Done, p.Total) }
		return c.shrink(db, func() error {
			defer line.clear()
			return db.Compact(ctx, o)
		})
	})
}

// runCollect reclaims the space of unused values.
func runCollect(ctx context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	db, err := c.openToWrite(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		return c.shrink(db, func() error { return db.Collect(ctx) })
	})
}

// shrink runs do and prints the size of the database before and after it.
func (c *call) shrink(db *stoat.DB, do func() error) error {
	before := db.Stats()
	if err := do(); err != nil {
		return err
	}
	after := db.Stats()
	fmt.Fprintf(c.out, "tables and values: %s before, %s after\n",
		bytesText(before.TableBytes+before.ValueBytes), bytesText(after.TableBytes+after.ValueBytes))
	return nil
}
