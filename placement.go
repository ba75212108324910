package stoat

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// valueFileSize is how large value files become. A value for which that is too little
// has a file of its own.
const valueFileSize = 128 << 20

// A placement decides where values lie when memtables become tables: short
// ones in the tables, beside their keys, and longer ones in value files, in
// the order of their keys. Then merging tables moves keys and pointers, while
// the values stay where they are.
type placement struct {
	db      *DB
	file    vfs.File       // being written, or nil
	writer  *values.Writer // to it
	num     base.FileNum
	salt    uint64
	pointer []byte
	sample  replacedSample // of what a flush places

	made  []*manifest.ValueFile
	files []base.FileNum // of all files that were begun
}

// place is compact.Job.Place for a flush.
func (p *placement) place(e *base.Entry) (manifest.ValueRef, bool, error) {
	if e.Meta.Kind != base.KindPointer && int64(len(e.Value)) < p.db.opts.ValueThreshold {
		return manifest.ValueRef{}, false, nil
	}
	p.sample.see(p.db, e.Key)
	if e.Meta.Kind == base.KindPointer {
		return pointerRef(e)
	}
	ref, err := p.append(e, e.Seq)
	return ref, true, err
}

// append writes the value of e as that of version seq, and puts the pointer in
// its place, which is valid until the next call.
func (p *placement) append(e *base.Entry, seq base.SeqNum) (manifest.ValueRef, error) {
	if err := p.ready(int64(len(e.Value))); err != nil {
		return manifest.ValueRef{}, err
	}
	at, err := p.writer.Append(e.Key, seq, e.Value)
	if err != nil {
		return manifest.ValueRef{}, err
	}
	return p.point(e, at), nil
}

// ready makes sure that there is a file for another value of so many bytes.
func (p *placement) ready(bytes int64) error {
	if p.writer != nil && !p.writer.Empty() && p.writer.Size()+bytes > valueFileSize {
		if err := p.finish(); err != nil {
			return err
		}
	}
	if p.writer != nil {
		return nil
	}
	return p.create()
}

// point makes e point to at, until the next call.
func (p *placement) point(e *base.Entry, at values.Pointer) manifest.ValueRef {
	p.pointer = at.AppendTo(p.pointer[:0])
	e.Value, e.Meta.Kind = p.pointer, base.KindPointer
	return manifest.ValueRef{File: at.File, Bytes: values.RefBytes(at)}
}

// pointerRef is compact.Job.Place for a merge: values stay where they are.
func pointerRef(e *base.Entry) (manifest.ValueRef, bool, error) {
	if e.Meta.Kind != base.KindPointer {
		return manifest.ValueRef{}, false, nil
	}
	at, err := values.DecodePointer(e.Value)
	return manifest.ValueRef{File: at.File, Bytes: values.RefBytes(at)}, true, err
}

func (p *placement) create() (err error) {
	if p.num, p.file, err = p.db.newValueFile(); err != nil {
		return err
	}
	p.files = append(p.files, p.num)
	p.salt = rand.Uint64()
	p.writer, err = values.NewWriter(p.file, values.WriterOptions{
		Num: p.num, Salt: p.salt, Compression: p.db.opts.Compression.ofValues()})
	return err
}

// finish seals the file that is being written, if there is one. One that was begun
// for a value that could not be read, and no other, is none.
func (p *placement) finish() error {
	if p.writer == nil {
		return nil
	}
	if p.writer.Empty() {
		err := p.close()
		p.files = p.files[:len(p.files)-1]
		p.db.removeFile(base.ValueName(p.num))
		return err
	}
	props, err := p.writer.Finish()
	if e := p.close(); err == nil {
		err = e
	}
	if err == nil {
		p.made = append(p.made, valueFileOf(props, p.num))
	}
	return err
}

// close closes the file that is being written.
func (p *placement) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file, p.writer = nil, nil
	return err
}

// add takes over the files of another one, which is not used any more.
func (p *placement) add(other *placement) {
	p.made = append(p.made, other.made...)
	slices.SortFunc(p.made, func(a, b *manifest.ValueFile) int { return cmp.Compare(a.Num, b.Num) })
	p.files = append(p.files, other.files...)
	p.sample.add(other.sample)
}

// abandon deletes what was written.
func (p *placement) abandon() {
	_ = p.close() // the file is removed
	for _, n := range p.files {
		p.db.removeFile(base.ValueName(n))
	}
}

// bytes returns how much was written.
func (p *placement) bytes() int64 {
	n := int64(0)
	for _, f := range p.made {
		n += f.Size
	}
	return n
}

// valueFileOf returns what the manifest knows of a sealed file, whose name has
// the given number.
func valueFileOf(p values.Properties, file base.FileNum) *manifest.ValueFile {
	return &manifest.ValueFile{Num: p.Num, File: file, Size: p.Size, Salt: p.Salt,
		Values: p.Values, Bytes: p.Bytes, ValueBytes: p.ValueBytes, FirstSeq: p.FirstSeq, LastSeq: p.LastSeq}
}

// newValueFile makes the file of a new value file.
func (d *DB) newValueFile() (base.FileNum, vfs.File, error) {
	d.at(pointCreate)
	n := base.FileNum(d.nextFile.Add(1) - 1)
	f, err := d.fs.Create(d.fs.Join(d.dir, base.ValueName(n)), vfs.CatValue)
	return n, f, err
}
