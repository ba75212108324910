package table

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/vfs"
)

// ReaderOptions say how a reader reads a table.
type ReaderOptions struct {
	// Cache keeps decoded blocks. If it is nil, each read of a compressed block
	// decodes it again.
	Cache *cache.Cache
	// CacheID identifies the table in the cache.
	CacheID uint64
	// MappedOnly closes the file once it is mapped, so that a database of many
	// tables needs fewer file descriptors. Then no iterator may be Unmapped.
	MappedOnly bool
	// WithoutValueFiles leaves Properties.ValueFiles out, which may take more memory than the
	// rest of the reader.
	WithoutValueFiles bool
	// SeqShift is added to each sequence number that the file stores.
	SeqShift base.SeqNum
	// Missed is called when the table begins to count as missed: single reads have found
	// many pieces of it that were not in memory. Missed must return at once. If it is nil,
	// or the table is sealed, reads do not count.
	Missed func()
	// Used is called at the first use of the table in each round of the gauge. It
	// must return at once. It may be nil.
	Used func()
}

// A Reader reads a table. It is safe for concurrent use.
//
// Reads use a read-only mapping and copy nothing. The first access to a part of
// the file fetches it by a system call and verifies it. So cold data costs a
// system call, which blocks only the goroutine, and not a page fault, which blocks
// the processor.
//
// All fields are immutable between Open and Close. The bitmaps, the gauge and the count of
// drops change by atomic operations.
type Reader struct {
	// A read of an absent key needs only these, which share a cache line: a point
	// read searches several tables before it finds its key.
	index   []byte // the slots of the hash index
	pagesOK bitmap
	shape   hashShape // that of the footer

	// A read of a present key also needs these.
	data           []byte // the mapping
	directory      []byte
	keysOK, valsOK bitmap
	gauge          residency.Gauge
	fences         []byte
	// shared is the number of bytes that all keys of entries share. first is
	// the first of these keys.
	shared int
	first  []byte

	footer
	sums      []byte
	tops      []uint64 // see readTops
	deletions *rangedel.List
	props     Properties
	opts      ReaderOptions
	file      vfs.File // nil once closed
	m         vfs.Mapping
	sealed    *seal.Mapping // m, if the file is sealed
	name      string
	drops     atomic.Uint64 // how many times DropPages has run
	misses    atomic.Int64  // pieces that single reads fetched; see lookUp
	missed    atomic.Bool   // for TakeMissed
}

// Open opens the table in file, which has the given size. The reader takes over the
// file: Close closes it, and so does a failed Open. Errors call the table name.
func Open(file vfs.File, size int64, name string, opts ReaderOptions) (*Reader, error) {
	r := &Reader{file: file, name: name, opts: opts}
	r.gauge.Init(opts.Used)
	err := r.open(size)
	if err == nil && opts.MappedOnly {
		err = r.closeFile()
	}
	if err != nil {
		// The first error says what happened.
		_ = r.Close()
		return nil, fmt.Errorf("open table: %w", base.InFile(err, name))
	}
	return r, nil
}

func (r *Reader) open(size int64) error {
	tail := make([]byte, min(max(size, 0), footerSize))
	if n, err := r.file.ReadAt(tail, size-int64(len(tail))); n < len(tail) {
		if errors.Is(err, io.EOF) {
			return base.Corrupt(size, "length of the file", "less", size)
		}
		return err
	}
	var err error
	if r.footer, err = decodeFooter(tail, size); err != nil {
		return err
	}
	if r.m, err = r.file.Map(size); err != nil {
		return err
	}
	if r.sealed, _ = r.m.(*seal.Mapping); r.sealed != nil {
		r.opts.Missed = nil // decrypted pages are scarce memory
	}
	if r.data = r.m.Bytes(); int64(len(r.data)) != size {
		return base.Corrupt(0, "length of the mapping", len(r.data), size)
	}
	if _, err := r.m.Populate(r.sumsOff(), size-r.sumsOff()); err != nil {
		return err
	}
	r.gauge.Touch()
	return r.openSections()
}

// openSections decodes the sections that Open verifies.
func (r *Reader) openSections() error {
	s, err := r.readSections()
	if err != nil {
		return err
	}
	r.sums, r.fences, r.directory = s[0], s[1], s[2]
	r.readTops()
	// Decode a copy: its keys are used even after the mapping's pages are
	// returned or the reader is closed.
	if r.deletions, err = rangedel.Decode(slices.Clone(s[3]), r.delsOff()); err != nil {
		return err
	}
	if r.props, err = decodeProperties(s[4], r.propsOff()); err != nil {
		return err
	}
	if r.opts.WithoutValueFiles {
		r.props.ValueFiles = nil
	}
	if r.props.Blocks != uint64(r.blocks) {
		return base.Corrupt(r.propsOff(), "count of blocks", r.props.Blocks, r.blocks)
	}
	r.props.Size, r.props.DataSize, r.props.Salt = r.size, r.dataEnd, r.salt
	r.first, r.shared = r.props.Smallest, base.CommonLen(r.props.Smallest, r.props.Largest)
	r.props.include(r.deletions)
	if err := r.shiftProperties(); err != nil {
		return err
	}
	r.index, r.shape = r.data[r.hashOff():r.sumsOff()], r.hash
	r.keysOK, r.valsOK = newBitmap(int(r.blocks)), newBitmap(int(r.blocks))
	r.pagesOK = newBitmap(r.hash.pages())
	return nil
}

// shiftProperties adds the shift to the bounds of sequence numbers.
func (r *Reader) shiftProperties() error {
	shift := r.opts.SeqShift
	if shift == 0 {
		return nil
	}
	if r.deletions.Len() > 0 || r.props.Entries == 0 || r.props.LargestSeq > base.SeqNumMax-shift {
		return base.Corrupt(r.propsOff(), "contents of a table with shifted versions",
			fmt.Sprintf("version %d", r.props.LargestSeq), fmt.Sprintf("entries of %d at most", base.SeqNumMax-shift))
	}
	r.props.SmallestSeq += shift
	r.props.LargestSeq += shift
	return nil
}

// readSections returns the sums, the fences, the directory, the range tombstones
// and the properties, each verified.
func (r *Reader) readSections() (s [5][]byte, err error) {
	at := r.sumsOff()
	for i, x := range []struct {
		name string
		end  int64
		sum  uint64
	}{
		{"sums", r.fencesOff(), r.sumsSum},
		{"fences", r.directoryOff(), r.fencesSum},
		{"directory", r.delsOff(), r.directorySum},
		{"range deletions", r.propsOff(), r.delsSum},
		{"properties", r.footerOff(), r.propsSum},
	} {
		s[i] = r.data[at:x.end:x.end]
		if got := r.sumOf(s[i], at); got != x.sum {
			return s, base.Corrupt(at, "checksum of a table's "+x.name, fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", x.sum))
		}
		at = x.end
	}
	return s, nil
}

// Properties describes the contents of the table. The caller must not change the
// slices in it.
func (r *Reader) Properties() Properties { return r.props }

// HashSeed returns the seed of the hash with which the table finds keys.
func (r *Reader) HashSeed() uint64 { return r.hashSeed }

// Deletions returns the range tombstones of the table, nil if it has none. They
// stay valid after Close.
func (r *Reader) Deletions() *rangedel.List { return r.deletions }

// Close closes the reader. After it the caller must not touch values that were
// read without a copy.
func (r *Reader) Close() error {
	var err error
	if r.m != nil {
		err = r.m.Close()
	}
	r.data, r.index, r.sums, r.fences, r.directory = nil, nil, nil, nil, nil
	return errors.Join(err, r.closeFile())
}

// closeFile closes the file if it is open. The mapping stays.
func (r *Reader) closeFile() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
