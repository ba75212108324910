package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
)

// Options configure a check.
type Options struct {
	State manifest.State
	// OpenTable and OpenValues open a file for the check only, which closes it.
	// They compare its size and salt with those of the manifest.
	OpenTable  func(*manifest.Table) (*table.Reader, error)
	OpenValues func(*manifest.ValueFile) (*values.Reader, error)
	// Progress receives the progress of the check; it may be nil.
	Progress func(Progress)
	// Stop returns an error to end the check early, and nil to continue. The
	// check calls it often. It may be nil.
	Stop func() error
}

// Run checks the tables and value files of a version. The error is that of o.Stop,
// or of a device that cannot be read, also through a mapping. Problems with the files are
// in the report, also beside an error.
func Run(o Options) (report *Report, err error) {
	started := time.Now()
	c := checker{o: o, report: new(Report), files: make(map[base.FileNum]*valueFile)}
	defer func() { // also after a panic of o.Progress
		for _, f := range c.open {
			err = errors.Join(err, f.r.Close())
		}
		c.report.Took = time.Since(started)
	}()
	return c.report, fault.Guard(c.run)
}

// A checker is one check in progress.
type checker struct {
	o        Options
	report   *Report
	files    map[base.FileNum]*valueFile // by identity
	open     []*valueFile                // those with a reader
	uses     uint64                      // counts calls of reader
	progress Progress
	arena    codec.Arena    // of the current value
	steps    []partial.Step // of the current entry
	// incomplete says that a table could not be read to its end, so that the
	// sums over all tables are too small.
	incomplete bool
}

// A valueFile is a value file with the number of bytes that tables refer to.
type valueFile struct {
	manifest.LiveValues
	r       *values.Reader // nil if it is not open
	used    uint64         // the checker's uses at the last use of r
	damaged bool           // pointers into it cannot be read
	live    uint64         // bytes that tables refer to
}

// openMax is the maximum number of value files that a check keeps open. Each takes a
// mapping, and memory for the bitmap of verified parts.
const openMax = 64

// reader returns a reader of f. It is valid until the next call.
func (c *checker) reader(f *valueFile) (*values.Reader, error) {
	c.uses++
	f.used = c.uses
	if f.r != nil {
		return f.r, nil
	}
	if len(c.open) == openMax {
		oldest := slices.MinFunc(c.open, func(a, b *valueFile) int { return cmp.Compare(a.used, b.used) })
		c.open = slices.DeleteFunc(c.open, func(f *valueFile) bool { return f == oldest })
		r := oldest.r
		oldest.r = nil
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	r, err := c.o.OpenValues(f.ValueFile)
	if err != nil {
		return nil, err
	}
	f.r, c.open = r, append(c.open, f)
	return r, nil
}

func (c *checker) run() error {
	v := c.o.State.Version
	c.progress.Total += v.TableBytes()
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

// stop returns the error that ends the check early, or nil.
func (c *checker) stop() error {
	if c.o.Stop == nil {
		return nil
	}
	return c.o.Stop()
}

// passed notes that a file of that many bytes has been checked.
func (c *checker) passed(bytes int64) {
	c.report.Bytes += bytes
	c.progress.Done += bytes
	if c.o.Progress != nil {
		c.o.Progress(c.progress)
	}
}

// checkValues checks a value file by itself.
func (c *checker) checkValues(m manifest.LiveValues) error {
	if err := c.stop(); err != nil {
		return err
	}
	f := &valueFile{LiveValues: m}
	c.files[m.Num] = f
	c.report.Values++
	name := base.ValueName(m.File)
	r, err := c.reader(f)
	if err != nil {
		f.damaged = true
		c.passed(m.Size)
		return c.report.note(base.InFile(err, name))
	}
	if err := c.report.note(r.Verify(c.stop)); err != nil {
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
	if m.ValueBytes != 0 && p.ValueBytes != m.ValueBytes {
		c.report.mismatch(name, "sum of the lengths of values", p.ValueBytes, m.ValueBytes)
	}
	c.passed(m.Size)
	return nil
}

// checkSums compares the bytes that tables refer to in each value file with the sums
// in the manifest.
func (c *checker) checkSums() {
	if c.incomplete {
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
