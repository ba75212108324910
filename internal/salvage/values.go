package salvage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// valueFileSize is the size in bytes to which new value files grow.
	valueFileSize = 128 << 20
	// wholeMax is the longest value in bytes that is copied as a whole. Longer ones are
	// copied in parts.
	wholeMax = 256 << 10
	// openMax is how many old value files are open at once.
	openMax = 64
)

// A valueInput is an old value file.
type valueInput struct {
	file base.FileNum // the number in its name
	hint *values.Hint
	r    *values.Damaged // nil unless open
	err  error           // why it cannot be opened
	used uint64
}

// A valueCopier copies values from old value files to new ones.
type valueCopier struct {
	s *salvager
	// old has the files of each identity, the newest first.
	old   map[base.FileNum][]*valueInput
	open  []*valueInput
	turns uint64

	rules   settings.Walk
	num     base.FileNum
	file    vfs.File
	w       *values.Writer
	made    []*manifest.ValueFile
	buf     []byte
	pointer []byte
}

// find arranges the value files by identity.
func (c *valueCopier) find(files []*valueInput) error {
	c.old = map[base.FileNum][]*valueInput{}
	for _, f := range files {
		if err := c.s.o.Stop(); err != nil {
			return err
		}
		c.s.report.ValueFiles++
		if f.hint != nil {
			c.old[f.hint.Num] = append(c.old[f.hint.Num], f)
			continue
		}
		r, err := c.reader(f)
		if err != nil {
			if !c.s.known { // otherwise the file is unfinished
				c.s.report.loseFile(base.ValueName(f.file), 0, nil, nil, err)
			}
			continue
		}
		c.old[r.Num()] = append(c.old[r.Num()], f)
	}
	for _, files := range c.old {
		slices.SortFunc(files, func(a, b *valueInput) int { return cmp.Compare(b.file, a.file) })
	}
	return nil
}

// reader opens an old value file.
func (c *valueCopier) reader(f *valueInput) (*values.Damaged, error) {
	c.turns++
	f.used = c.turns
	if f.r != nil || f.err != nil {
		return f.r, f.err
	}
	if len(c.open) == openMax {
		oldest := slices.MinFunc(c.open, func(a, b *valueInput) int { return cmp.Compare(a.used, b.used) })
		c.shut(oldest)
	}
	name := base.ValueName(f.file)
	path := c.s.fs.Join(c.s.o.From, name)
	file, err := c.s.fs.Open(path, vfs.CatValue)
	if err != nil {
		f.err = vfs.WrapError(vfs.OpOpen, path, err)
		return nil, f.err
	}
	size, err := file.Size()
	if err == nil {
		f.r, err = values.OpenDamaged(fault.Tolerant(file), size, name, f.hint)
	}
	if err != nil {
		f.err = err
		_ = file.Close() // it was only read
		return nil, err
	}
	for _, note := range f.r.Notes {
		c.s.noteOnce(note.Error())
	}
	c.open = append(c.open, f)
	return f.r, nil
}

// shut closes an old value file.
func (c *valueCopier) shut(f *valueInput) {
	_ = f.r.Close() // it was only read
	f.r = nil
	c.open = slices.DeleteFunc(c.open, func(o *valueInput) bool { return o == f })
}

// each calls use for the readable copies of the value of an entry, until use succeeds.
func (c *valueCopier) each(e *base.Entry, use func(*values.ValueReader) error) error {
	p, err := values.DecodePointer(e.Value)
	if err != nil {
		return err
	}
	files := c.old[p.File]
	if len(files) == 0 {
		return &base.CorruptionError{File: base.ValueName(p.File), Offset: -1, What: "value file of a pointer", Got: "none", Want: "a file"}
	}
	var first error
	for _, f := range files {
		var v *values.ValueReader
		r, err := c.reader(f)
		if err == nil {
			v, err = r.Value(p, e.Key, e.Seq)
		}
		if err == nil {
			err = use(v)
		}
		if err == nil || c.failed(err) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// failed reports whether err is of the new database, and not of a damaged file.
func (c *valueCopier) failed(err error) bool {
	var out *outputError
	return errors.As(err, &out)
}

// An outputError is an error of writing the new database.
type outputError struct{ error }

func (e *outputError) Unwrap() error { return e.error }

// written makes an outputError.
func written(err error) error {
	if err == nil {
		return nil
	}
	return &outputError{err}
}

// readable reports whether the value of an entry can be read.
func (c *valueCopier) readable(e *base.Entry) bool {
	return e.Meta.Kind != base.KindPointer || c.each(e, (*values.ValueReader).Check) == nil
}

// place puts the value of an entry where it belongs. The value of a pointer, or a long
// value of the log, goes to a new value file. The pointer is valid until the next call. The
// error is an outputError, or says that the value is lost.
func (c *valueCopier) place(e *base.Entry, log bool) (ref manifest.ValueRef, apart bool, err error) {
	rule := c.rules.At(e.Key)
	switch {
	case e.Meta.Kind == base.KindPointer:
		err = c.each(e, func(v *values.ValueReader) error {
			ref, err = c.copy(e, v, rule)
			return err
		})
	case log && e.Meta.Kind == base.KindSet && int64(len(e.Value)) >= rule.ValueThreshold:
		ref, err = c.append(e, e.Value, rule)
	default:
		return ref, false, nil
	}
	return ref, true, err
}

// copy copies a value to a new value file.
func (c *valueCopier) copy(e *base.Entry, v *values.ValueReader, rule *settings.Settings) (manifest.ValueRef, error) {
	size := v.Size()
	if size <= wholeMax {
		c.buf = slices.Grow(c.buf[:0], int(size))[:size]
		if _, err := io.ReadFull(v, c.buf); err != nil {
			return manifest.ValueRef{}, err
		}
		c.s.report.Values++
		return c.append(e, c.buf, rule)
	}
	if err := c.room(size); err != nil {
		return manifest.ValueRef{}, written(err)
	}
	out, err := c.w.Stream(e.Key)
	if err != nil {
		return manifest.ValueRef{}, written(err)
	}
	if err := c.stream(out, v); err != nil {
		out.Abort()
		return manifest.ValueRef{}, err
	}
	at, err := out.Finish(e.Seq)
	if err != nil {
		return manifest.ValueRef{}, written(err)
	}
	c.s.report.Values++
	return c.point(e, at), nil
}

// stream copies a value in parts.
func (c *valueCopier) stream(out *values.Stream, v *values.ValueReader) error {
	c.buf = slices.Grow(c.buf[:0], wholeMax)[:wholeMax]
	for {
		if err := c.s.o.Stop(); err != nil {
			return written(err)
		}
		n, err := v.Read(c.buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := out.Write(c.buf[:n]); err != nil {
			return written(err)
		}
	}
}

// append appends a value to a new value file.
func (c *valueCopier) append(e *base.Entry, value []byte, rule *settings.Settings) (manifest.ValueRef, error) {
	err := c.room(int64(len(value)))
	if err == nil {
		err = c.w.SetCompression(rule.Compression.OfValues())
	}
	var at values.Pointer
	if err == nil {
		at, err = c.w.Append(e.Key, e.Seq, value)
	}
	if err != nil {
		return manifest.ValueRef{}, written(err)
	}
	return c.point(e, at), nil
}

// point makes e point to at.
func (c *valueCopier) point(e *base.Entry, at values.Pointer) manifest.ValueRef {
	c.pointer = at.AppendTo(c.pointer[:0])
	e.Value, e.Meta.Kind = c.pointer, base.KindPointer
	return manifest.ValueRef{File: at.File, Bytes: values.RefBytes(at)}
}

// room makes sure that a new value file has room for a value.
func (c *valueCopier) room(size int64) (err error) {
	if c.w != nil && !c.w.Empty() && c.w.Size()+size > valueFileSize {
		if err := c.finish(); err != nil {
			return err
		}
	}
	if c.w != nil {
		return nil
	}
	if c.num, c.file, err = c.s.to.create(base.ValueName, vfs.CatValue); err != nil {
		return err
	}
	c.w, err = values.NewWriter(c.file, values.WriterOptions{Num: c.num, Salt: c.s.o.Random()})
	return err
}

// finish ends the new value file, if there is one.
func (c *valueCopier) finish() error {
	if c.w == nil {
		return nil
	}
	empty, w, file := c.w.Empty(), c.w, c.file
	c.w, c.file = nil, nil
	if empty {
		return errors.Join(file.Close(), c.s.to.remove(base.ValueName(c.num)))
	}
	p, err := w.Finish()
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", base.ValueName(c.num), err)
	}
	c.made = append(c.made, place.FileOf(p, c.num))
	return nil
}

// close closes all files.
func (c *valueCopier) close() {
	for len(c.open) > 0 {
		c.shut(c.open[0])
	}
	if c.file != nil {
		_ = c.file.Close() // the new database is given up
		c.file = nil
	}
}
