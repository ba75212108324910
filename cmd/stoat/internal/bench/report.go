package bench

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/stoatdb/stoat/vfs"
)

// A report prints the results row by row.
type report struct {
	w io.Writer

	loadWritten int64 // bytes that the load wrote to devices; 0 if unknown
	loadPeak    footprint
	churned     *churned // nil unless there was a churn
}

// columns is the format of a row: name, rate, time per operation, three quantiles
// of the latency, the longest latency, and allocations per operation.
const columns = "  %-46s %11s %9s %9s %9s %9s %9s %8s\n"

// header prints the configuration and the machine.
func (r *report) header(c *Config, w *workload, dir string) {
	fmt.Fprintf(r.w, "stoat bench: %s keys of %d bytes, values of %s; seed %d\n",
		count(c.Keys), w.keySize(), size(int64(c.ValueSize)), c.Seed)
	if c.Text {
		fmt.Fprintln(r.w, "values compress to about two fifths")
	}
	if c.MasterKeys != nil {
		fmt.Fprintln(r.w, "the database is encrypted")
	}
	fmt.Fprintf(r.w, "%s/%s, %s, %s; database in %s\n\n",
		runtime.GOOS, runtime.GOARCH, many(runtime.NumCPU(), "processor"), runtime.Version(), dir)
	fmt.Fprintf(r.w, columns, "", "rate", "each", "p50", "p99", "p99.9", "longest", "allocs")
	fmt.Fprintln(r.w, "  "+strings.Repeat("─", 117))
}

// row prints a job that processed n keys. The quantiles are those of its
// operations, each of which may process several keys.
func (r *report) row(name string, n uint64, res *result) {
	if n == 0 {
		n = 1 // interrupted before the first operation: avoid NaN
	}
	latency := res.latency.Summary()
	fmt.Fprintf(r.w, columns, name, perSecond(n, res.elapsed), duration(float64(res.elapsed)/float64(n)),
		duration(float64(latency.P50)), duration(float64(latency.P99)), duration(float64(latency.P999)),
		duration(float64(latency.Max)), three(float64(res.allocs)/float64(n)))
}

// keysRow is row without quantiles, for long operations.
func (r *report) keysRow(name string, n uint64, res *result) {
	n = max(n, 1)
	fmt.Fprintf(r.w, columns, name, perSecond(n, res.elapsed), duration(float64(res.elapsed)/float64(n)),
		"", "", "", "", three(float64(res.allocs)/float64(n)))
}

// once prints the time of a single operation.
func (r *report) once(name string, took time.Duration) {
	fmt.Fprintf(r.w, columns, name, "", duration(float64(took)), "", "", "", "", "")
}

// verified prints a verification of n keys.
func (r *report) verified(name string, n int, took time.Duration) {
	fmt.Fprintf(r.w, columns, name, perSecond(uint64(n), took), duration(float64(took)/float64(max(n, 1))), "", "", "", "", "")
}

// footer prints the totals.
func (r *report) footer(b *Bench) {
	user := int64(b.cfg.Keys) * int64(b.work.keySize()+b.cfg.ValueSize)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(r.w, "  %-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(r.w)
	if r.churned != nil {
		r.churned.print(r.w)
	}
	line("loaded by the user", "%s", size(user))
	if apparent, allocated, err := diskUsage(b.dir); err == nil {
		line("on disk at the end", "%s, of which %s are allocated", size(apparent), size(allocated))
	} else {
		line("on disk at the end", "unknown: %v", err)
	}
	switch {
	case r.churned != nil: // churned.print has printed the bytes written
	case r.loadWritten > 0:
		line("written by the load", "%s, %s bytes per user byte",
			size(r.loadWritten), three(float64(r.loadWritten)/float64(user)))
	default:
		line("written by the load", "unknown on this system")
	}
	if b.memory != nil {
		all := b.memory.peak()
		line("peak memory", "load: %s anonymous, %s mapped from files; whole run: %s and %s",
			size(r.loadPeak.anonymous), size(r.loadPeak.mapped), size(all.anonymous), size(all.mapped))
	} else {
		line("peak memory", "unknown on this system")
	}
	line("correct answers", "all: %s values compared byte by byte, %s reads compared by their first and last bytes",
		count(b.verified), count(b.checked))
	fmt.Fprintf(r.w, "\n  The quantiles of the load are those of a batch. Quantiles are at most an eighth too high. The time of a\n"+
		"  read includes making the key and computing the correct answer, which takes %s.\n", duration(b.ownCost()))
}

// diskUsage returns the sum of the lengths of a database's files, and of their
// allocated space.
func diskUsage(dir string) (apparent, allocated int64, err error) {
	fs := vfs.OS()
	names, err := fs.List(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		info, err := fs.Stat(fs.Join(dir, name))
		if errors.Is(err, vfs.ErrNotExist) {
			continue // a background job has just deleted it
		}
		if err != nil {
			return 0, 0, err
		}
		apparent += info.Size
		allocated += info.Allocated
	}
	return apparent, allocated, nil
}
