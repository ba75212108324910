package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/stoatdb/stoat"
)

// runStats prints the size and structure of a database.
func runStats(_ context.Context, c *call, args []string) error {
	rest, err := c.parse(args, 1, 1)
	if err != nil {
		return err
	}
	db, err := c.openBeside(rest[0])
	return with(db, err, func(db *stoat.DB) error {
		s := db.Stats()
		onDisk, err := sizeOf(rest[0])
		if err != nil {
			return err
		}
		if err := printStats(c.out, &s, onDisk); err != nil {
			return err
		}
		return printSettings(c.out, db)
	})
}

// sizeOf returns the size of all files of a directory. Another process may remove some.
func sizeOf(dir string) (size int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	return sumOf(entries)
}

// sumOf returns the size of those files that still exist.
func sumOf(entries []os.DirEntry) (size int64, err error) {
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		size += info.Size()
	}
	return size, nil
}

// printStats prints the statistics of a database that was just opened. It omits
// counters that start at the open.
func printStats(out io.Writer, s *stoat.Stats, onDisk int64) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "version\t%d\n", s.Version)
	fmt.Fprintf(w, "size on disk\t%s\n", bytesText(onDisk))
	fmt.Fprintf(w, "tables\t%d\t%s\t%s of keys and values\n", s.Tables, bytesText(s.TableBytes), bytesText(s.TableContent))
	for i, l := range s.Levels {
		if l.Tables > 0 {
			fmt.Fprintf(w, "  level %d\t%d\t%s\t%d runs\n", i, l.Tables, bytesText(l.Bytes), l.Runs)
		}
	}
	fmt.Fprintf(w, "value files\t%d\t%s\t%s of values\t%s garbage\n", s.Values, bytesText(s.ValueBytes),
		bytesText(s.ValueContent), bytesText(s.ValueGarbage))
	fmt.Fprintf(w, "  order\t%d\tchanges of value file in a scan in key order\n", s.ValueJumps)
	if s.ValueContent > 0 {
		fmt.Fprintf(w, "  size\t%.0f%%\tof the size of the values\n", 100*float64(s.ValueBytes)/float64(s.ValueContent))
	}
	fmt.Fprintf(w, "only in the log\t%d versions\t%s in memory\n", s.MemtableEntries, bytesText(s.MemtableBytes))
	fmt.Fprintf(w, "compaction debt\t%s\n", bytesText(s.Debt))
	return w.Flush()
}

// printSettings prints the format and the stored settings of a database.
func printSettings(out io.Writer, db *stoat.DB) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	f, s := db.Format(), db.Settings()
	fmt.Fprintf(w, "format\t%d\n", f.Version)
	printFeatures(w, f)
	fmt.Fprintf(w, "settings\n")
	fmt.Fprintf(w, "  versions\t%d\tkept of each key\n", s.NumVersions)
	fmt.Fprintf(w, "  compression\t%v\n", s.Compression)
	fmt.Fprintf(w, "  value threshold\t%d\tbytes and more lie in value files\n", s.ValueThreshold)
	fmt.Fprintf(w, "  large values\t%d\tbytes and more may skip the log\n", s.LargeValueThreshold)
	fmt.Fprintf(w, "  time to live\t%s\n", ttlText(s.DefaultTTL))
	fmt.Fprintf(w, "  merge function\t%s\n", settingText(s.MergeFunction))
	fmt.Fprintf(w, "  filter\t%s\n", settingText(s.Filter))
	fmt.Fprintf(w, "  change retention\t%d\tbytes of the log stay for subscribers\n", s.ChangeRetention)
	return w.Flush()
}

// ttlText returns a default time to live for people.
func ttlText(ttl time.Duration) string {
	if ttl <= 0 {
		return "forever"
	}
	return ttl.Round(time.Millisecond).String()
}

// settingText returns the name of a merge function or a filter for people.
func settingText(name string) string {
	if name == "" {
		return "none"
	}
	return strconv.Quote(name)
}
