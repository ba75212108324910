package memfs

import (
	"bytes"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Sizes of a Mem's storage.
const (
	// memPage is the unit that contents share and that space is counted in.
	pageSize = 4096
	// chunkPages is the pages of a chunk, as many as a word has bits.
	chunkPages = 64
	chunkBytes = chunkPages * pageSize
	// memFileMax bounds the size of a file in a Mem, so that a wild offset is
	// an error and not gigabytes of chunk pointers.
	fileSizeMax = 1 << 40
)

// A content is the bytes of a file as pages that several contents share:
// those of a clone, of the durable image, of a crash state. A page is written
// in place only by the content that owns it; all others copy it first.
//
// Ownership goes by generation: a chunk belongs to the content whose gen it
// carries, and a page to the owner of its chunk if its bit in own is set. To
// fork is to give both sides new generations, after which neither owns
// anything: the cost does not depend on the size.
//
// Bytes at and beyond size are zero, so that growing is only a new size.
type content struct {
	size   int64
	chunks []*chunk
	gen    uint64
	// shared says that chunks may be another content's slice as well.
	shared bool
	// pages is the number of allocated pages.
	pages int64
}

type page [pageSize]byte

// A chunk is a run of chunkPages pages. A page that is nil reads as zeros.
type chunk struct {
	gen uint64
	// own has a bit for each page that may be written in place.
	own uint64
	// alloc has a bit for each page that takes up space: those that are there
	// and those that are only reserved.
	alloc uint64
	pages [chunkPages]*page
}

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

// span is the part of one page that a range of bytes covers.
type span struct {
	chunk, page int   // where the page is
	from, to    int   // the bytes within the page
	at          int64 // their distance from the start of the range
}

// spans calls f for each page that [off, off+n) touches.
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

// peek returns a page for reading, or nil where there are only zeros.
func (c *content) peek(chunk, page int) *page {
	if chunk >= len(c.chunks) || c.chunks[chunk] == nil {
		return nil
	}
	return c.chunks[chunk].pages[page]
}

// isAllocated reports whether the page takes up space.
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

// allocate marks a page of a chunk that c owns as taking up space.
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

// readAt copies what lies at off into p and returns how much there was.
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

// zeroPage is what files are filled with that are written ahead of their use.
var zeroPage page

// writeAt stores p at off and grows the size as needed. Zeros where there were
// only zeros take up space, but no memory.
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

// reserve takes up the space of [off, off+n) and grows the size as needed.
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

// setSize cuts or grows the contents.
func (c *content) setSize(size int64) {
	if size < c.size {
		c.cut(size)
	}
	c.size = size
}

// cut zeroes what lies at and beyond size and gives its pages back.
func (c *content) cut(size int64) {
	whole := int((size + chunkBytes - 1) / chunkBytes)
	for i := whole; i < len(c.chunks); i++ {
		if ch := c.chunks[i]; ch != nil {
			c.pages -= int64(bits.OnesCount64(ch.alloc))
		}
	}
	if whole < len(c.chunks) {
		// The slice keeps its capacity only if it is this content's own.
		c.chunks = c.chunks[:whole:whole]
	}
	rest := size % chunkBytes
	last := int(size / chunkBytes)
	if rest == 0 || last >= len(c.chunks) || c.chunks[last] == nil {
		return
	}
	ch := c.writableChunk(last)
	from := int((rest + pageSize - 1) / pageSize)
	gone := ^uint64(0) << from // 0 when from is chunkPages
	c.pages -= int64(bits.OnesCount64(ch.alloc & gone))
	ch.alloc &^= gone
	ch.own &^= gone
	clear(ch.pages[from:])
	if in := int(rest % pageSize); in != 0 && ch.pages[from-1] != nil {
		clear(c.writable(last, from-1)[in:])
	}
}

// copyRange makes [off, off+n) of c what it is in src, whatever the sizes.
// Whole pages are shared, not copied.
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

// sharePage makes a page of c the one of src. From then on neither owns it.
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

// contiguous returns [0, n) as one slice and makes it the storage of those
// pages, so that the bytes exist once. Later writes copy their page first.
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

// aliases reports whether buf, which contiguous once returned for at least n
// bytes, still is the storage of [0, n).
func (c *content) aliases(buf []byte, n int64) bool {
	same := true
	spans(0, n, func(s span) {
		if p := c.peek(s.chunk, s.page); p == nil || &p[0] != &buf[s.at] {
			same = false
		}
	})
	return same
}
