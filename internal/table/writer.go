package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/vfs"
)

// WriterOptions say how a writer makes a table.
type WriterOptions struct {
	// Salt identifies the table. It must be random and differ for every table.
	Salt uint64
	// HashSeed is the seed of the database's key hash.
	HashSeed uint64
	// BlockSize is the size in bytes at which the values of a block are
	// complete. Default: 4 KiB.
	BlockSize int
	// Compression is the codec for blocks of values. It is used where it saves
	// an eighth. Default: codec.None.
	Compression codec.ID
	// SparseIndex makes the hash index half full instead of three quarters. It
	// is for tables that most reads search without finding their key.
	SparseIndex bool

	wideIndex bool // slots of 8 bytes, whatever the size; for tests
}

const (
	blockSizeDefault = 4 << 10
	// keyPartSize is the size in bytes of a key part at which a block ends even
	// with few value bytes. A search in a block should touch few cache lines.
	keyPartSize = 1 << 10
	// compressMin is the length in bytes from which the values of a block are
	// compressed.
	compressMin = 64
	// soloMin is a length in bytes. A longer value at the start of a block is
	// written from the caller's memory, without a copy.
	soloMin = 64 << 10
	// extentSize is the number of bytes of key parts that are collected before
	// they are written. Key parts then lie next to each other, and an iteration
	// over keys reads nothing else.
	extentSize = 256 << 10
)

// ErrEmpty says that a table would have neither entries nor range tombstones.
var ErrEmpty = errors.New("table: no entries")

// errTooLarge says that a table exceeds a limit of the format.
var errTooLarge = errors.New("table: more blocks or bytes than a table can hold")

// A Writer makes a table from ordered entries and range tombstones. Its memory is a
// few megabytes at most, plus 64 bytes a block for the directory and 12 bytes a key
// for the hash index. After an error every call returns that error, and the file
// is invalid.
type Writer struct {
	out   output
	opts  WriterOptions
	props Properties
	block blockBuilder
	comp  *codec.Compressor
	comps [codec.Last + 1]*codec.Compressor // those in use so far, comp among them
	hash  hashBuilder
	err   error

	last    []byte // the last key
	lastSeq base.SeqNum

	deletions *rangedel.List

	keyParts  []byte       // the current extent
	pending   []blockEntry // the blocks of the current extent
	blocks    int
	fullest   int
	directory []byte
	keySums   []byte
	valSums   []byte
	firsts    firstKeys
	refs      map[uint64]uint64
}

// NewWriter returns a writer that appends a table to an empty file. The caller keeps
// ownership of the file.
func NewWriter(file vfs.File, opts WriterOptions) (*Writer, error) {
	if opts.BlockSize == 0 {
		opts.BlockSize = blockSizeDefault
	}
	if opts.BlockSize < 0 || opts.BlockSize > codec.SizeMax/2 {
		return nil, fmt.Errorf("table: block size %d, want 1 to %d", opts.BlockSize, codec.SizeMax/2)
	}
	if opts.Compression > codec.Last {
		return nil, fmt.Errorf("table: unknown compression %d", opts.Compression)
	}
	w := &Writer{
		out:   newOutput(file),
		opts:  opts,
		props: Properties{Salt: opts.Salt, SmallestSeq: base.SeqNumMax},
	}
	if err := w.SetCompression(opts.Compression); err != nil {
		return nil, err
	}
	return w, nil
}

// SetCompression sets the codec for blocks of later entries.
func (w *Writer) SetCompression(id codec.ID) error {
	if w.comp != nil && w.comp == w.comps[id] {
		return nil
	}
	if w.comp != nil && w.err == nil {
		w.finishBlock()
	}
	if w.comps[id] == nil {
		comp, err := codec.NewCompressor(id, compressMin, codec.SizeMax)
		if err != nil {
			return fmt.Errorf("table: %w", err)
		}
		w.comps[id] = comp
	}
	w.comp = w.comps[id]
	return w.err
}

// Add appends an entry. Keys must ascend and, within a key, sequence numbers must
// descend. The caller may reuse key and value after the call.
func (w *Writer) Add(e base.Entry) error {
	if w.err != nil {
		return w.err
	}
	shared := base.CommonLen(w.last, e.Key)
	if err := w.checkEntry(&e, shared); err != nil {
		w.err = err
		return err
	}
	if n := w.block.count(); n > 0 && (n == blockEntriesMax ||
		w.block.valueSize()+len(e.Value) > 2*w.opts.BlockSize ||
		w.block.keySize(len(e.Key), shared) > 2*keyPartSize) {
		w.finishBlock()
	}
	newKey := w.props.Entries == 0 || shared < len(e.Key) || shared < len(w.last)
	if newKey {
		w.hash.add(base.Hash(e.Key, w.opts.HashSeed), w.blocks, w.block.count())
		w.last = append(w.last[:0], e.Key...)
		w.props.Keys++
	}
	w.lastSeq = e.Seq
	w.block.add(&e, shared)
	w.count(&e)
	// A borrowed value must be written before Add returns.
	if w.block.solo != nil || w.block.valueSize() >= w.opts.BlockSize || w.block.keySize(0, len(e.Key)) >= keyPartSize {
		w.finishBlock()
	}
	return w.err
}

// AddPointer appends an entry of base.KindPointer. ref is the part of a value file
// that its value refers to.
func (w *Writer) AddPointer(e base.Entry, ref ValueFileRef) error {
	if w.err == nil && e.Meta.Kind != base.KindPointer {
		w.err = fmt.Errorf("table: AddPointer of an entry of kind %s", e.Meta.Kind)
	}
	if err := w.Add(e); err != nil {
		return err
	}
	if w.refs == nil {
		w.refs = map[uint64]uint64{}
	}
	w.refs[ref.File] += ref.Bytes
	return nil
}

// AddDeletions adds range tombstones, at any time before Finish. Their keys are
// borrowed until then.
func (w *Writer) AddDeletions(l *rangedel.List) error {
	if w.err != nil {
		return w.err
	}
	for i := range l.Len() {
		f := l.At(i)
		if len(f.Lo) == 0 || len(f.Lo) > base.MaxKeySize || len(base.StoredBound(f.Hi)) > base.MaxKeySize ||
			f.Seqs[0] > base.SeqNumMax || f.Seqs[len(f.Seqs)-1] == 0 {
			w.err = fmt.Errorf("table: range tombstone from %.80q to %.80q at %d", f.Lo, f.Hi, f.Seqs)
			return w.err
		}
	}
	w.deletions = rangedel.Merge(w.deletions, l)
	return nil
}

// checkEntry refuses entries that the format cannot hold. shared is the number of
// bytes that the key shares with the last one.
func (w *Writer) checkEntry(e *base.Entry, shared int) error {
	switch {
	case len(e.Key) == 0 || len(e.Key) > base.MaxKeySize:
		return fmt.Errorf("table: key of %d bytes", len(e.Key))
	case uint64(len(e.Value)) > base.MaxValueSize:
		return fmt.Errorf("table: value of %d bytes", len(e.Value))
	case e.Seq > base.SeqNumMax:
		return fmt.Errorf("table: sequence number %d", e.Seq)
	case !storable(e.Meta.Kind):
		return fmt.Errorf("table: entry of kind %d", e.Meta.Kind)
	case w.props.Entries == 0:
		return nil
	}
	// The last key is smaller if it is a prefix, or if its first different byte
	// is smaller.
	atEnd := shared == len(w.last)
	switch {
	case atEnd && shared == len(e.Key) && w.lastSeq > e.Seq:
		return nil
	case atEnd && shared < len(e.Key):
		return nil
	case !atEnd && shared < len(e.Key) && w.last[shared] < e.Key[shared]:
		return nil
	}
	return fmt.Errorf("table: %q#%d added after %q#%d", e.Key, e.Seq, w.last, w.lastSeq)
}

// count updates the properties.
func (w *Writer) count(e *base.Entry) {
	p := &w.props
	p.Entries++
	p.KeyBytes += uint64(len(e.Key))
	p.ValueBytes += uint64(len(e.Value))
	p.SmallestSeq, p.LargestSeq = min(p.SmallestSeq, e.Seq), max(p.LargestSeq, e.Seq)
	switch e.Meta.Kind {
	case base.KindDelete:
		p.Deletions++
	case base.KindPointer:
		p.Pointers++
	case base.KindMerge, base.KindRenew:
		p.Partials++
	}
	if x := e.Meta.ExpiresAt; x != 0 {
		if p.Expiring == 0 {
			p.OldestExpiry = x
		}
		p.Expiring++
		p.OldestExpiry, p.NewestExpiry = min(p.OldestExpiry, x), max(p.NewestExpiry, x)
	}
	if p.Entries == 1 {
		p.Smallest = slices.Clone(e.Key)
	}
}

// finishBlock writes the values of the block and keeps its key part for the
// extent.
func (w *Writer) finishBlock() {
	b := &w.block
	if b.count() == 0 {
		return
	}
	e := b.entry()
	stored := b.rawValues()
	if !b.mostlyPointers() {
		e.codec, stored = w.comp.Compress(stored)
	}
	e.valOff, e.valLen = w.out.pos(), uint32(len(stored))
	w.valSums = binary.LittleEndian.AppendUint64(w.valSums, partSum(w.opts.Salt, stored, e.valOff))
	w.out.write(stored)

	start := len(w.keyParts)
	w.keyParts = b.appendKeyPart(w.keyParts, &e)
	e.keyLen = uint32(len(w.keyParts) - start)
	w.pending = append(w.pending, e)
	w.firsts.add(b.keys[:b.kEnds[0]])
	w.fullest = max(w.fullest, b.count())
	w.props.KeyPartBytes += uint64(e.keyLen)
	w.props.ValuePartBytes += uint64(e.valLen)
	b.reset()
	if w.blocks++; w.blocks == blocksMax || w.out.pos() > offsetMax-1<<33 {
		w.err = errTooLarge
	}
	if len(w.keyParts) >= extentSize {
		w.finishExtent()
	}
	if w.err == nil {
		w.err = w.out.err
	}
}

// finishExtent writes the collected key parts.
func (w *Writer) finishExtent() {
	at, parts := w.out.pos(), w.keyParts
	for i := range w.pending {
		e := &w.pending[i]
		e.keyOff = at
		w.keySums = binary.LittleEndian.AppendUint64(w.keySums, partSum(w.opts.Salt, parts[:e.keyLen], at))
		w.directory = e.appendTo(w.directory)
		parts = parts[e.keyLen:]
		at += int64(e.keyLen)
	}
	w.out.write(w.keyParts)
	w.keyParts, w.pending = w.keyParts[:0], w.pending[:0]
}

// EstimatedSize returns the approximate size of the file in bytes if it were
// finished now.
func (w *Writer) EstimatedSize() int64 {
	const perBlock = blockEntrySize + fenceSize + 2*sumSize
	return w.out.pos() + int64(len(w.keyParts)) + int64(w.block.valueSize()) +
		int64(len(w.block.keys)) + int64(w.blocks)*perBlock + int64(4*slotsFor(len(w.hash.hashes), w.opts.SparseIndex)) + pageSize
}

// Finish writes the rest and makes the contents durable. The caller's SyncDir makes
// the file name durable.
func (w *Writer) Finish() (Properties, error) {
	if w.err == nil && w.props.Entries == 0 && w.deletions.Len() == 0 {
		w.err = ErrEmpty
	}
	if w.err == nil {
		w.finishBlock()
	}
	if w.err != nil {
		return Properties{}, w.err
	}
	w.finishExtent()
	w.finishIndex()
	w.out.finish()
	if w.err = w.out.err; w.err != nil {
		return Properties{}, w.err
	}
	if w.err = w.out.file.SyncData(); w.err != nil {
		return Properties{}, w.err
	}
	w.err = errors.New("table: the writer is finished")
	return w.props, nil
}

// Hashes returns the hashes of the added keys. The writer owns the slice.
func (w *Writer) Hashes() []uint64 { return w.hash.hashes }

// finishIndex writes everything behind the blocks.
func (w *Writer) finishIndex() {
	p := &w.props
	p.Largest, p.Blocks, p.DataSize = slices.Clone(w.last), uint64(w.blocks), w.out.pos()
	deletions := w.deletions.AppendTo(nil)
	for _, file := range slices.Sorted(maps.Keys(w.refs)) {
		p.ValueFiles = append(p.ValueFiles, ValueFileRef{file, w.refs[file]})
	}

	f := footer{salt: w.opts.Salt, hashSeed: w.opts.HashSeed, dataEnd: p.DataSize, blocks: int64(w.blocks)}
	f.hash = w.hash.shape(w.blocks, w.fullest, w.opts.wideIndex, w.opts.SparseIndex)
	w.out.write(make([]byte, f.hashOff()-f.dataEnd))
	index := w.hash.build(f.hash)
	w.out.write(index)

	sums := append(w.keySums, w.valSums...)
	at := f.hashOff()
	for page := range slices.Chunk(index, pageSize) {
		sums = binary.LittleEndian.AppendUint64(sums, f.sumOf(page, at))
		at += pageSize
	}
	props := p.append(nil)
	f.propsLen, f.delsLen = int64(len(props)), int64(len(deletions))
	f.size = f.footerOff() + footerSize
	p.Size = f.size
	f.sumsSum = w.section(&f, sums)
	f.fencesSum = w.section(&f, w.firsts.fences(base.CommonLen(p.Smallest, p.Largest)))
	f.directorySum = w.section(&f, w.directory)
	f.delsSum = w.section(&f, deletions)
	f.propsSum = w.section(&f, props)
	w.out.write(f.append(nil))
	p.include(w.deletions)
	// The bounds must outlive the borrowed memory.
	p.Smallest, p.Largest = slices.Clone(p.Smallest), base.CloneBound(p.Largest)
}

// section writes b and returns its checksum.
func (w *Writer) section(f *footer, b []byte) uint64 {
	sum := f.sumOf(b, w.out.pos())
	w.out.write(b)
	return sum
}
