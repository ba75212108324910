package memfs

import (
	"bytes"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Sizes of the storage, in bytes unless noted.
const (
	// pageSize is the unit in which contents share memory and space is counted.
	pageSize = 4096
	// chunkPages is the number of pages in a chunk, one per bit of a word.
	chunkPages = 64
	chunkBytes = chunkPages * pageSize
	// fileSizeMax is the maximum length of a file. A larger offset is an error, because
	// it would need gigabytes of chunk pointers.
	fileSizeMax = 1 << 40
)

// A content is the bytes of a file. Its pages may be shared with other contents: those
// of clones, of the durable image and of crash states. Only the content that owns a
// page writes to it in place. All other contents copy it first.
//
// A content owns the chunks with its generation. It owns those pages of such a chunk
// whose bit in own is set. A fork gives both sides new generations, so that neither owns
// anything afterwards. Its cost does not depend on the size.
//
// Bytes at and beyond size are zero, so that growing changes only size.
type content struct {
	size   int64 // bytes
	chunks []*chunk
	gen    uint64
	// shared reports whether other contents may use the slice chunks.
	shared bool
	// pages is the number of allocated pages.
	pages int64
}

type page [pageSize]byte

// A chunk is chunkPages consecutive pages. A nil page reads as zeros.
type chunk struct {
	gen uint64
	// own has a bit for each page that the owner of the chunk may write in place.
	own uint64
	// alloc has a bit for each page that takes space, including pages that are only
	// reserved.
	alloc uint64
	pages [chunkPages]*page
}

// lastGen is the last generation that a content got.
var lastGen atomic.Uint64

func newContent() content { return content{gen: lastGen.Add(1)} }

// fork returns a copy of c that shares all pages.
func (c *content) fork() content {
	c.shared = true
	d := *c
	c.gen = lastGen.Add(1)
	d.gen = lastGen.Add(1)
	return d
}

// A span is the part of a range of bytes that lies in one page.
type span struct {
	chunk, page int   // the index of the chunk, and of the page in it
	from, to    int   // offsets in the page
	at          int64 // offset of from in the range
}

// spans calls f for each page of [off, off+n).
func spans(off, n int64, f func(span)) {
	for at := int64(0); at < n; {
		pos := off + at
		from := pos % pageSize
		to := min(pageSize, from+n-at)
		f(span{
			chunk: int(pos / chunkBytes),
			page:  int(pos % chunkBytes / pageSize),
			from:  int(from),
			to:    int(to),
			at:    at,
		})
		at += to - from
	}
}

// peek returns a page for reading, or nil if it is zero.
func (c *content) peek(chunk, page int) *page {
	if chunk >= len(c.chunks) || c.chunks[chunk] == nil {
		return nil
	}
	return c.chunks[chunk].pages[page]
}

// isAllocated reports whether the page takes space.
func (c *content) isAllocated(chunk, page int) bool {
	if chunk >= len(c.chunks) || c.chunks[chunk] == nil {
		return false
	}
	return c.chunks[chunk].alloc>>page&1 != 0
}

// writableChunk returns a chunk that c owns.
func (c *content) writableChunk(i int) *chunk {
	if c.shared {
		c.chunks = slices.Clone(c.chunks)
		c.shared = false
	}
	if i >= len(c.chunks) {
		c.chunks = append(c.chunks, make([]*chunk, i+1-len(c.chunks))...)
	}
	ch := c.chunks[i]
	switch {
	case ch == nil:
		ch = &chunk{gen: c.gen}
	case ch.gen != c.gen:
		mine := *ch
		mine.gen, mine.own = c.gen, 0
		ch = &mine
	}
	c.chunks[i] = ch
	return ch
}

// allocate marks a page as taking space. c must own the chunk.
func (c *content) allocate(ch *chunk, page int) {
	if ch.alloc>>page&1 == 0 {
		ch.alloc |= 1 << page
		c.pages++
	}
}

// writable returns a page that c may write in place.
func (c *content) writable(chunk, p int) *page {
	ch := c.writableChunk(chunk)
	c.allocate(ch, p)
	if ch.own>>p&1 == 0 {
		mine := new(page)
		if old := ch.pages[p]; old != nil {
			*mine = *old
		}
		ch.pages[p] = mine
		ch.own |= 1 << p
	}
	return ch.pages[p]
}

// readAt copies bytes at off to p and returns their number.
func (c *content) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	n := min(int64(len(p)), c.size-off)
	spans(off, n, func(s span) {
		dst := p[s.at : s.at+int64(s.to-s.from)]
		if src := c.peek(s.chunk, s.page); src != nil {
			copy(dst, src[s.from:s.to])
		} else {
			clear(dst)
		}
	})
	return int(n)
}

// zeroPage is compared with writes, because some files are filled with zeros first.
var zeroPage page

// writeAt writes p at off and grows the size if necessary. Zeros written to a zero page
// take space but no memory.
func (c *content) writeAt(p []byte, off int64) {
	spans(off, int64(len(p)), func(s span) {
		from := p[s.at : s.at+int64(s.to-s.from)]
		if c.peek(s.chunk, s.page) == nil && bytes.Equal(from, zeroPage[:len(from)]) {
			c.allocate(c.writableChunk(s.chunk), s.page)
			return
		}
		copy(c.writable(s.chunk, s.page)[s.from:s.to], from)
	})
	if len(p) > 0 {
		c.size = max(c.size, off+int64(len(p)))
	}
}

// reserve allocates the pages of [off, off+n) and grows the size if necessary.
func (c *content) reserve(off, n int64) {
	spans(off, n, func(s span) {
		if !c.isAllocated(s.chunk, s.page) {
			c.allocate(c.writableChunk(s.chunk), s.page)
		}
	})
	c.size = max(c.size, off+n)
}

// missing returns how many pages of [off, off+n) are not allocated.
func (c *content) missing(off, n int64) int64 {
	var pages int64
	spans(off, n, func(s span) {
		if !c.isAllocated(s.chunk, s.page) {
			pages++
		}
	})
	return pages
}

// setSize truncates or grows the content.
func (c *content) setSize(size int64) {
	if size < c.size {
		c.cut(size)
	}
	c.size = size
}

// cut zeroes the bytes at and beyond size, and frees their pages.
func (c *content) cut(size int64) {
	whole := int((size + chunkBytes - 1) / chunkBytes)
	for i := whole; i < len(c.chunks); i++ {
		if ch := c.chunks[i]; ch != nil {
			c.pages -= int64(bits.OnesCount64(ch.alloc))
		}
	}
	if whole < len(c.chunks) {
		// Without spare capacity, a later append copies the slice, which may be shared.
		c.chunks = c.chunks[:whole:whole]
	}
	rest := size % chunkBytes
	last := int(size / chunkBytes)
	if rest == 0 || last >= len(c.chunks) || c.chunks[last] == nil {
		return
	}
	ch := c.writableChunk(last)
	from := int((rest + pageSize - 1) / pageSize)
	gone := ^uint64(0) << from // 0 if from is chunkPages
	c.pages -= int64(bits.OnesCount64(ch.alloc & gone))
	ch.alloc &^= gone
	ch.own &^= gone
	clear(ch.pages[from:])
	if in := int(rest % pageSize); in != 0 && ch.pages[from-1] != nil {
		clear(c.writable(last, from-1)[in:])
	}
}

// copyRange copies [off, off+n) from src to c, regardless of their sizes. It shares whole
// pages instead of copying them.
func (c *content) copyRange(src *content, off, n int64) {
	spans(off, n, func(s span) {
		from := src.peek(s.chunk, s.page)
		switch {
		case s.to-s.from == pageSize:
			c.sharePage(src, s.chunk, s.page)
		case from != nil:
			copy(c.writable(s.chunk, s.page)[s.from:s.to], from[s.from:s.to])
		case c.peek(s.chunk, s.page) != nil:
			clear(c.writable(s.chunk, s.page)[s.from:s.to])
		}
		if src.isAllocated(s.chunk, s.page) && !c.isAllocated(s.chunk, s.page) {
			c.allocate(c.writableChunk(s.chunk), s.page)
		}
	})
}

// sharePage makes c use a page of src. Neither owns the page afterwards.
func (c *content) sharePage(src *content, chunk, p int) {
	from := src.peek(chunk, p)
	if from == nil && c.peek(chunk, p) == nil {
		return
	}
	if from != nil {
		if ch := src.chunks[chunk]; ch.gen == src.gen {
			ch.own &^= 1 << p
		}
	}
	ch := c.writableChunk(chunk)
	ch.pages[p] = from
	ch.own &^= 1 << p
}

// contiguous returns [0, n) as one slice, which becomes the storage of those pages. The
// bytes thus exist once. Later writes copy their page first and do not change the slice.
func (c *content) contiguous(n int64) []byte {
	pages := (n + pageSize - 1) / pageSize
	buf := make([]byte, pages*pageSize)
	spans(0, pages*pageSize, func(s span) {
		fresh := (*page)(buf[s.at:])
		if old := c.peek(s.chunk, s.page); old != nil {
			*fresh = *old
		}
		ch := c.writableChunk(s.chunk)
		ch.pages[s.page] = fresh
		ch.own &^= 1 << s.page
	})
	return buf[:n:n]
}

// aliases reports whether buf is still the storage of [0, n). buf must be a result of
// contiguous for at least n bytes.
func (c *content) aliases(buf []byte, n int64) bool {
	same := true
	spans(0, n, func(s span) {
		if p := c.peek(s.chunk, s.page); p == nil || &p[0] != &buf[s.at] {
			same = false
		}
	})
	return same
}
