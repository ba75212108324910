package place

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// fileSize is the size in bytes to which value files grow. A value that is larger
// has a file of its own.
const fileSize = 128 << 20

// Options are what Writers of one database have in common.
type Options struct {
	Store    *state.Store
	Settings settings.Of
}

// A Writer writes values to new value files. Nothing refers to them until a
// manifest edit does. One goroutine uses it at a time.
type Writer struct {
	o       *Options
	rules   settings.Walk
	file    vfs.File       // being written, or nil
	writer  *values.Writer // to it
	num     base.FileNum
	pointer []byte

	// behind seals files beside the next one. nil seals them at once.
	behind *work.Behind
	wrap   func(vfs.File) vfs.File // nil writes to the files themselves

	made  []*manifest.ValueFile // sealed files
	begun []base.FileNum        // all files
}

// NewWriter returns a writer without files.
func NewWriter(o *Options) *Writer { return &Writer{o: o, rules: settings.Walk{Of: o.Settings}} }

// NewWriterBeside returns a writer that seals each file beside the next one. wrap returns
// what the writer writes to instead of the new file itself.
func NewWriterBeside(o *Options, exec *work.Executor, wrap func(vfs.File) vfs.File) *Writer {
	w := NewWriter(o)
	w.behind, w.wrap = work.NewBehind(exec), wrap
	return w
}

// Place writes the value of e if it is long enough, and puts a pointer in its
// place. It reports whether the value lies apart. It is compact.Job.Place of a
// flush.
func (w *Writer) Place(e *base.Entry) (ref manifest.ValueRef, apart bool, err error) {
	if e.Meta.Kind == base.KindPointer {
		return PointerRef(e)
	}
	if int64(len(e.Value)) < w.rules.At(e.Key).ValueThreshold {
		return ref, false, nil
	}
	ref, err = w.Append(e, e.Seq)
	return ref, true, err
}

// PointerRef returns what an entry refers to, if it is a pointer. It is
// compact.Job.Place of a merge, where values stay where they are.
func PointerRef(e *base.Entry) (ref manifest.ValueRef, apart bool, err error) {
	if e.Meta.Kind != base.KindPointer {
		return ref, false, nil
	}
	at, err := values.DecodePointer(e.Value)
	return manifest.ValueRef{File: at.File, Bytes: values.RefBytes(at)}, true, err
}

// Append writes the value of e as that of version seq, and puts a pointer in its
// place that is valid until the next call.
func (w *Writer) Append(e *base.Entry, seq base.SeqNum) (manifest.ValueRef, error) {
	to, err := w.File(int64(len(e.Value)))
	if err != nil {
		return manifest.ValueRef{}, err
	}
	if err := to.SetCompression(w.rules.At(e.Key).Compression.OfValues()); err != nil {
		return manifest.ValueRef{}, err
	}
	at, err := to.Append(e.Key, seq, e.Value)
	if err != nil {
		return manifest.ValueRef{}, err
	}
	return w.Point(e, at), nil
}

// File returns the writer of a file that has room for another value of that many
// bytes.
func (w *Writer) File(bytes int64) (*values.Writer, error) {
	if w.writer != nil && !w.writer.Empty() && w.writer.Size()+bytes > fileSize {
		if err := w.seal(); err != nil {
			return nil, err
		}
	}
	if w.writer == nil {
		if err := w.create(); err != nil {
			return nil, err
		}
	}
	return w.writer, nil
}

// Point makes e point to at, until the next call.
func (w *Writer) Point(e *base.Entry, at values.Pointer) manifest.ValueRef {
	w.pointer = at.AppendTo(w.pointer[:0])
	e.Value, e.Meta.Kind = w.pointer, base.KindPointer
	return manifest.ValueRef{File: at.File, Bytes: values.RefBytes(at)}
}

func (w *Writer) create() (err error) {
	if w.num, w.file, err = w.o.Store.NewValueFile(); err != nil {
		return err
	}
	w.begun = append(w.begun, w.num)
	if w.wrap != nil {
		w.file = w.wrap(w.file)
	}
	w.writer, err = values.NewWriter(w.file, values.WriterOptions{Num: w.num, Salt: rand.Uint64()})
	return err
}

// Finish seals the file that is being written. An empty one, begun for a value
// that could not be read, it deletes.
func (w *Writer) Finish() error {
	err := w.seal()
	if e := w.behind.Wait(); err == nil {
		err = e
	}
	return err
}

// seal is Finish, which may end later.
func (w *Writer) seal() error {
	if w.writer == nil {
		return nil
	}
	if w.writer.Empty() {
		err := w.Close()
		w.begun = w.begun[:len(w.begun)-1]
		w.o.Store.RemoveFile(base.ValueName(w.num))
		return err
	}
	if err := w.behind.Wait(); err != nil {
		return err // Close closes the file
	}
	file, writer, num := w.file, w.writer, w.num
	w.file, w.writer = nil, nil
	return w.behind.Run(func() error {
		props, err := writer.Finish()
		if e := file.Close(); err == nil {
			err = e
		}
		if err == nil {
			w.made = append(w.made, FileOf(props, num))
		}
		return err
	})
}

// Close closes the file that is being written, without sealing it.
func (w *Writer) Close() error {
	err := w.behind.Wait()
	if w.file == nil {
		return err
	}
	if e := w.file.Close(); err == nil {
		err = e
	}
	w.file, w.writer = nil, nil
	return err
}

// Add takes over the files of another writer, which is not used any more.
func (w *Writer) Add(other *Writer) {
	w.made = append(w.made, other.made...)
	slices.SortFunc(w.made, func(a, b *manifest.ValueFile) int { return cmp.Compare(a.Num, b.Num) })
	w.begun = append(w.begun, other.begun...)
}

// Abandon deletes all files.
func (w *Writer) Abandon() {
	_ = w.Close() // the file is removed
	for _, n := range w.begun {
		w.o.Store.RemoveFile(base.ValueName(n))
	}
}

// Made returns the sealed files.
func (w *Writer) Made() []*manifest.ValueFile { return w.made }

// Bytes returns the size of the sealed files.
func (w *Writer) Bytes() (bytes int64) {
	for _, f := range w.made {
		bytes += f.Size
	}
	return bytes
}

// FileOf returns what the manifest says of a sealed file whose name has the
// number file.
func FileOf(p values.Properties, file base.FileNum) *manifest.ValueFile {
	return &manifest.ValueFile{Num: p.Num, File: file, Size: p.Size, Salt: p.Salt,
		Values: p.Values, Bytes: p.Bytes, ValueBytes: p.ValueBytes, FirstSeq: p.FirstSeq, LastSeq: p.LastSeq}
}
