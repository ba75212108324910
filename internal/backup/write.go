package backup

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/settings"
	"github.com/stoatdb/stoat/internal/stream"
)

// WriteOptions say what Write writes.
type WriteOptions struct {
	Snapshot stream.Snapshot
	Header   Header
	// Versions is how many versions of a key the backup holds at most; 0 is as many as its
	// keyspace keeps.
	Versions int
	// Compression is that of the frames. Default: settings.Fast.
	Compression settings.Compression
	// Check returns why the transaction of the snapshot cannot go on, or nil.
	Check func() error
}

// HeaderOf returns the header of a backup of a snapshot of a database. state is from after
// the snapshot.
func HeaderOf(state manifest.State, at base.SeqNum) Header {
	s := manifest.State{FormatVersion: state.FormatVersion, ID: state.ID, LastSeq: at, ClockHighMs: state.ClockHighMs,
		OptionalFeatures: state.OptionalFeatures, NextKeyspace: state.NextKeyspace, Unknown: state.Unknown}
	for _, name := range state.RequiredFeatures {
		if name != manifest.FeatureEncryption { // a backup is not encrypted
			s.RequiredFeatures = append(s.RequiredFeatures, name)
		}
	}
	for _, k := range state.Keyspaces {
		if !k.Dropping {
			s.Keyspaces = append(s.Keyspaces, k)
		}
	}
	return Header{State: s}
}

// Write writes a backup of a snapshot to w.
func Write(ctx context.Context, w io.Writer, o WriteOptions) (Info, error) {
	info := o.Header.Info()
	to, err := newFrameWriter(w, TypeBackup)
	if err != nil {
		return info, err
	}
	for part := range slices.Chunk(o.Header.appendTo(nil), itemsSize) {
		if err := to.write(newFrame(frameHeader, part, nil, nil)); err != nil {
			return info, err
		}
	}
	if !o.Header.empty() {
		b := &writer{o: &o}
		b.packers.New = func() any { return b.newPacker() }
		for _, k := range o.Header.State.Keyspaces {
			if filtered(k) {
				lo, hi := keyspace.Bounds(k.Number)
				b.filtered = append(b.filtered, stream.Range{Lo: lo, Hi: hi})
			}
		}
		err = stream.Run(ctx, stream.Plan[stream.Range, frame]{
			Ordered: true,
			Ranges:  o.Snapshot.Ranges(stream.Range{}, 0),
			Check:   o.Check,
			Read:    b.read,
			Send: func(f frame) error {
				info.Entries += f.entries
				info.Unchanged += f.unchanged
				err := to.write(f)
				b.buffers.Put(&f.bytes)
				return err
			},
		})
		if err != nil {
			return info, err
		}
	}
	return info, to.write(newFrame(frameEnd, appendEnd(nil, info.Entries, info.Unchanged), nil, nil))
}

// A writer packs ranges of a snapshot into frames. Several goroutines use it.
type writer struct {
	o       *WriteOptions
	packers sync.Pool // of *packer
	buffers sync.Pool // of *[]byte, for frames
	// filtered are the ranges of keyspaces with a filter.
	filtered []stream.Range
}

// compressMin is the length in bytes from which frames are compressed.
const compressMin = 64

// A packer packs the versions of one range after the other.
type packer struct {
	w    *writer
	comp *codec.Compressor // nil does not compress
	emit func(frame) error

	items              items
	entries, unchanged uint64 // of the frame

	spaces   keyspace.Walk
	space    uint32
	since    base.SeqNum // what the backup of the keyspace space continues
	versions int         // how many whole versions to hold in the keyspace space; 0: it is dropped
	key      []byte
	whole    int // whole versions of key so far
	done     bool
}

func (w *writer) newPacker() *packer {
	p := &packer{w: w, items: items{until: w.o.Snapshot.At}}
	if c := cmp.Or(w.o.Compression, settings.Fast).OfValues(); c != codec.None {
		p.comp, _ = codec.NewCompressor(c, compressMin, codec.SizeMax) // no codec of values is unknown
	}
	return p
}

// read packs one range.
func (w *writer) read(_ context.Context, r stream.Range, emit func(frame) error) error {
	p := w.packers.Get().(*packer)
	defer w.packers.Put(p)
	p.emit, p.key = emit, p.key[:0]
	p.items.reset()
	p.entries, p.unchanged = 0, 0
	p.beginSpace(0)
	scan, err := w.o.Snapshot.Scan(r, w.since(r))
	if err != nil {
		return err
	}
	defer scan.Close()
	for scan.Next() {
		if err := p.add(scan); err != nil {
			return err
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	return p.flush()
}

// since returns the version up to which the backup needs no values of a range.
func (w *writer) since(r stream.Range) base.SeqNum {
	for _, f := range w.filtered {
		if (r.Hi == nil || bytes.Compare(f.Lo, r.Hi) < 0) && bytes.Compare(r.Lo, f.Hi) < 0 {
			return 0
		}
	}
	return w.o.Header.Since
}

// add packs the current version of a scan, if the backup holds it.
func (p *packer) add(scan *stream.Scan) error {
	e := &scan.Entry
	if n := p.spaces.Number(e.Key); n != p.space {
		p.beginSpace(n)
	}
	if !bytes.Equal(e.Key, p.key) {
		p.key = append(p.key[:0], e.Key...)
		p.whole, p.done = 0, p.versions == 0
	}
	if p.done {
		return nil
	}
	if e.Meta.Kind == base.KindDelete {
		p.done = true // nothing older lives
		return nil
	}
	it := Item{Entry: *e}
	if it.Meta.Kind == base.KindPointer {
		it.Meta.Kind = base.KindSet
	}
	if it.Seq <= p.since {
		p.done = true
		if it.Unchanged = valueKind(it.Meta.Kind); it.Unchanged && mutant.On(mutant.BackupForgets) {
			return nil
		}
	} else if !it.Meta.Kind.Partial() {
		p.whole++
		p.done = p.whole >= p.versions
	}
	return p.pack(scan, &it)
}

// beginSpace begins a keyspace.
func (p *packer) beginSpace(n uint32) {
	p.space, p.versions, p.since = n, 0, p.w.o.Header.since(n)
	if k, ok := p.w.o.Header.State.Keyspace(n); ok {
		p.versions = settings.Resolve(&k.Settings).NumVersions
	}
	if most := p.w.o.Versions; most > 0 {
		p.versions = min(p.versions, most)
	}
}

// pack adds an item to the frame.
func (p *packer) pack(scan *stream.Scan, it *Item) (err error) {
	it.Value = nil
	switch {
	case it.Unchanged:
		it.Meta = base.Meta{}
	case valueKind(it.Meta.Kind):
		if it.Value, err = scan.Value(); err != nil {
			return err
		}
	}
	value := it.Value
	if len(value) >= LargeMin && it.Meta.Kind == base.KindSet {
		it.Large, it.Value = uint64(len(value)), nil
	}
	if p.items.n > 0 && len(p.items.buf)+len(it.Key)+len(it.Value) > codec.SizeMax {
		if err := p.flush(); err != nil {
			return err
		}
	}
	p.items.add(it)
	if it.Unchanged {
		p.unchanged++
	} else {
		p.entries++
	}
	if it.Large == 0 && len(p.items.buf) < itemsSize {
		return nil
	}
	if err := p.flush(); err != nil || it.Large == 0 {
		return err
	}
	for part := range slices.Chunk(value, LargeMin) {
		if err := p.emit(newFrame(frameChunk, part, p.comp, p.buffer())); err != nil {
			return err
		}
	}
	return nil
}

// flush emits the frame, unless it is empty.
func (p *packer) flush() error {
	if p.items.n == 0 {
		return nil
	}
	f := newFrame(frameItems, p.items.buf, p.comp, p.buffer())
	f.entries, f.unchanged = p.entries, p.unchanged
	p.items.reset()
	p.entries, p.unchanged = 0, 0
	return p.emit(f)
}

func (p *packer) buffer() []byte {
	if b, _ := p.w.buffers.Get().(*[]byte); b != nil {
		return *b
	}
	return nil
}
