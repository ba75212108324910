package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
)

// Options say what to check.
type Options struct {
	State manifest.State
	// OpenTable and OpenValues open a file for the check alone, which closes
	// it. They compare its size and salt with those of the manifest.
	OpenTable  func(*manifest.Table) (*table.Reader, error)
	OpenValues func(*manifest.ValueFile) (*values.Reader, error)
	// Progress is told how far the check has come; it may be nil.
	Progress func(Progress)
}

// Run checks the tables and value files of a version. The error is that of
// ctx, or of a device that cannot be read; what is wrong with the files is in
// the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	started := time.Now()
	c := checker{o: o, ctx: ctx, report: new(Report), files: make(map[base.FileNum]*valueFile)}
	err := c.run()
	for _, f := range c.files {
		if f.r != nil {
			err = errors.Join(err, f.r.Close())
		}
	}
	c.report.Took = time.Since(started)
	return c.report, err
}

// A checker is one check under way.
type checker struct {
	o        Options
	ctx      context.Context
	report   *Report
	files    map[base.FileNum]*valueFile // by identity
	progress Progress
	// partly says that a table could not be read to its end, so that the sums
	// over all tables are too small.
	partly bool
}

// A valueFile is a value file and what the tables refer to in it.
type valueFile struct {
	manifest.LiveValues
	r    *values.Reader // nil if the file is damaged beyond reading pointers
	live uint64
}

func (c *checker) run() error {
	v := c.o.State.Version
	for level := range v.Levels {
		c.progress.Total += v.Bytes(level)
	}
	for _, f := range v.Values {
		c.progress.Total += f.Size
	}
	for _, f := range v.Values {
		if err := c.checkValues(f); err != nil {
			return err
		}
	}
	for level := range v.Levels {
		c.checkOrder(v.Levels[level], level)
		for _, t := range v.Levels[level] {
			if err := c.checkTable(t); err != nil {
				return err
			}
		}
	}
	if err := c.checkAges(); err != nil {
		return err
	}
	c.checkSums()
	return nil
}

// damage notes err if it says that a file is damaged, and returns any other.
func (c *checker) damage(err error) error {
	if errors.Is(err, base.ErrCorrupt) {
		c.report.add(err)
		return nil
	}
	return err
}

// passed notes that a file of so many bytes has been checked.
func (c *checker) passed(bytes int64) {
	c.report.Bytes += bytes
	c.progress.Done += bytes
	if c.o.Progress != nil {
		c.o.Progress(c.progress)
	}
}

// checkValues checks a value file in itself.
func (c *checker) checkValues(m manifest.LiveValues) error {
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	f := &valueFile{LiveValues: m}
	c.files[m.Num] = f
	c.report.Values++
	name := base.ValueName(m.File)
	r, err := c.o.OpenValues(m.ValueFile)
	if err != nil {
		c.passed(m.Size)
		return c.damage(base.InFile(err, name))
	}
	f.r = r
	if err := c.damage(r.Verify()); err != nil {
		return err
	}
	p := r.Properties()
	for _, x := range []struct {
		what      string
		got, want uint64
	}{
		{"count of values", p.Values, m.Values},
		{"bytes of values", p.Bytes, m.Bytes},
		{"smallest sequence number", uint64(p.FirstSeq), uint64(m.FirstSeq)},
		{"largest sequence number", uint64(p.LastSeq), uint64(m.LastSeq)},
	} {
		if x.got != x.want {
			c.report.mismatch(name, x.what, x.got, x.want)
		}
	}
	c.passed(m.Size)
	return nil
}

// checkSums compares what tables refer to in each value file with what the
// manifest keeps count of.
func (c *checker) checkSums() {
	if c.partly {
		return
	}
	for _, m := range c.o.State.Version.Values {
		f := c.files[m.Num]
		name := base.ValueName(m.File)
		if f.live != m.Live {
			c.report.mismatch(name, "bytes that tables refer to", f.live, m.Live)
		}
		if f.live > m.Bytes {
			c.report.add(base.InFile(base.Corrupt(-1, "bytes that tables refer to", f.live, fmt.Sprintf("%d at most", m.Bytes)), name))
		}
	}
}
