package seal

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

const (
	// pageSize is the size of a page in bytes: that of the page cache, so that a cold
	// read decrypts no more than it needs.
	pageSize  = 1 << pageShift
	pageShift = 12

	footerSize    = 88
	footerMagic   = 0x6c6165737461c3a7
	formatVersion = 1
	// sizeMax is the size of the largest file in bytes.
	sizeMax = 1 << 46
	runSize = 24
)

// A footer ends a sealed file. Little-endian:
//
//	offset  size  field
//	0       8     magic
//	8       4     format version
//	12      1     binary logarithm of the page size
//	13      3     zero
//	16      4     data key from which the key of the file is derived
//	20      4     how many footers were sealed before
//	24      32    salt of that key
//	56      8     size of the plain file
//	64      8     count of runs
//	72      16    tag of the above and of the runs, under the key of the file
type footer struct {
	key    base.KeyRef
	before uint32
	size   int64
	runs   []run
	tag    [tagSize]byte
}

// A run is consecutive pages that were sealed the same number of times before, at least
// once. Each number takes 8 bytes. Runs ascend.
type run struct {
	first, count int64
	before       uint32
}

// pagesOf returns how many pages a plain file of size bytes has.
func pagesOf(size int64) int64 { return (size + pageSize - 1) >> pageShift }

// tagOff returns the offset of the tag of a page.
func (f *footer) tagOff(page int64) int64 { return f.size + tagSize*page }

// end returns the size of the sealed file.
func (f *footer) end() int64 {
	return f.tagOff(pagesOf(f.size)) + runSize*int64(len(f.runs)) + footerSize
}

// sealedBefore returns how often a page was sealed before its last time.
func (f *footer) sealedBefore(page int64) uint32 {
	if len(f.runs) == 0 {
		return 0
	}
	i, found := slices.BinarySearchFunc(f.runs, page, func(r run, page int64) int {
		if page >= r.first && page < r.first+r.count {
			return 0
		}
		return cmp.Compare(r.first, page)
	})
	if !found {
		return 0
	}
	return f.runs[i].before
}

// appendRuns appends the runs.
func (f *footer) appendRuns(dst []byte) []byte {
	for _, r := range f.runs {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.first))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.count))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.before))
	}
	return dst
}

// appendFixed appends the footer of a file with that many runs, without the tag.
func (f *footer) appendFixed(dst []byte, runs int64) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, footerMagic)
	dst = le.AppendUint32(dst, formatVersion)
	dst = append(dst, pageShift, 0, 0, 0)
	dst = le.AppendUint32(dst, f.key.ID)
	dst = le.AppendUint32(dst, f.before)
	dst = append(dst, f.key.Salt[:]...)
	dst = le.AppendUint64(dst, uint64(f.size))
	return le.AppendUint64(dst, uint64(runs))
}

// decodeFooter decodes the footer of a file of end bytes, and returns the count of runs.
// Its offsets are those in the file.
func decodeFooter(b []byte, end int64) (f footer, runs int64, err error) {
	le, at := binary.LittleEndian, end-footerSize
	if len(b) != footerSize {
		return f, 0, base.Corrupt(max(0, at), "length of a sealed file", end, fmt.Sprintf("at least %d", footerSize))
	}
	if m := le.Uint64(b); m != footerMagic {
		return f, 0, base.Corrupt(at, "magic of a sealed file", fmt.Sprintf("%#x", m), fmt.Sprintf("%#x", uint64(footerMagic)))
	}
	if v := le.Uint32(b[8:]); v != formatVersion {
		return f, 0, base.Corrupt(at+8, "format version of a sealed file", v, formatVersion)
	}
	if x := le.Uint32(b[12:]); x != pageShift {
		return f, 0, base.Corrupt(at+12, "page size of a sealed file", x, pageShift)
	}
	f.key.ID, f.before = le.Uint32(b[16:]), le.Uint32(b[20:])
	if !f.key.Sealed() {
		return f, 0, base.Corrupt(at+16, "data key of a sealed file", f.key.ID, "a number")
	}
	copy(f.key.Salt[:], b[24:])
	size, count := le.Uint64(b[56:]), le.Uint64(b[64:])
	if size > sizeMax || count > uint64(pagesOf(int64(size))) {
		return f, 0, base.Corrupt(at+56, "size of a sealed file", fmt.Sprintf("%d bytes, %d runs", size, count), fmt.Sprintf("at most %d bytes", int64(sizeMax)))
	}
	f.size, runs = int64(size), int64(count)
	if want := f.end() + runSize*runs; want != end {
		return f, 0, base.Corrupt(-1, "size of a sealed file", end, want)
	}
	copy(f.tag[:], b[72:])
	return f, runs, nil
}

// decodeRuns decodes the runs, which begin at offset at of the file.
func (f *footer) decodeRuns(b []byte, at int64) error {
	le := binary.LittleEndian
	next, pages := int64(0), pagesOf(f.size)
	for ; len(b) > 0; b, at = b[runSize:], at+runSize {
		first, count, before := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])
		if first < uint64(next) || first >= uint64(pages) || count == 0 || count > uint64(pages)-first || before == 0 || before > 1<<32-1 {
			return base.Corrupt(at, "run of pages", fmt.Sprintf("%d from %d, sealed %d times", count, first, before), fmt.Sprintf("one in %d to %d", next, pages))
		}
		f.runs = append(f.runs, run{int64(first), int64(count), uint32(before)})
		next = int64(first + count)
	}
	return nil
}
