package seal

import (
	"crypto/cipher"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// groupPages is how many pages have a lock in common, and groups how many locks a
	// mapping has. Two goroutines decrypt pages of different groups at once.
	groupPages = 16
	groups     = 16
	// keptMax is how much of the sealed file a mapping keeps in memory of the process
	// until Trim, in bytes.
	keptMax = 64 << 20
)

// A Mapping is the plain file in memory of the process. Populate decrypts the pages that
// are not there yet. They stay until Close, so DontNeed gives no plain page back. An
// access to a page before Populate reads zeros.
type Mapping struct {
	name   string // of the file, for errors
	aead   cipher.AEAD
	foot   footer
	memory *Memory

	sealed vfs.Mapping // the sealed file
	data   []byte
	ready  []atomic.Uint64 // a bit for each page that was decrypted
	locks  [groups]sync.Mutex
	used   atomic.Int64 // bytes of decrypted pages
	// kept is about how many bytes of the sealed file the process has in memory.
	kept atomic.Int64
}

func newMapping(r *reader) (*Mapping, error) {
	end := r.foot.end()
	if end > math.MaxInt {
		return nil, vfs.WrapError(vfs.OpMap, r.Name(), vfs.ErrUnsupported)
	}
	sealed, err := r.File.Map(end)
	if err != nil {
		if sealed != nil {
			err = errors.Join(err, sealed.Close())
		}
		return nil, err
	}
	m := &Mapping{name: r.base, aead: r.aead, foot: r.foot, memory: r.memory, sealed: sealed}
	if n := int64(len(sealed.Bytes())); n != end {
		err = base.Corrupt(0, "length of the mapping", n, end)
	}
	if err == nil {
		m.data, err = vfs.AllocSparse(int(r.foot.size))
	}
	if err != nil {
		return nil, errors.Join(err, sealed.Close())
	}
	m.ready = make([]atomic.Uint64, (pagesOf(r.foot.size)+63)/64)
	return m, nil
}

// Bytes returns the plain file.
func (m *Mapping) Bytes() []byte { return m.data }

// Crowded reports whether the decrypted pages of all files have reached their limit.
// Then readers decrypt into memory of their own.
func (m *Mapping) Crowded() bool { return m.memory.Crowded() }

// Used returns the size of the decrypted pages in bytes.
func (m *Mapping) Used() int64 { return m.used.Load() }

// HeapBytes returns the approximate size of the mapping on the Go heap.
func (m *Mapping) HeapBytes() int64 { return 8*int64(len(m.ready)) + 1<<10 }

func (m *Mapping) has(page int64) bool {
	return m.ready[page/64].Load()&(1<<uint(page%64)) != 0
}

// WillNeed starts to read a part of the sealed file.
func (m *Mapping) WillNeed(off, n int64) error { return m.sealed.WillNeed(off, n) }

// KeepUsed does nothing: the decrypted pages are memory of the process.
func (m *Mapping) KeepUsed() error { return nil }

// DontNeed gives memory of the sealed file back.
func (m *Mapping) DontNeed(off, n int64) error { return m.sealed.DontNeed(off, n) }

// fetch brings the sealed pages from first to last-1 and their tags into memory.
func (m *Mapping) fetch(first, last int64) error {
	from := first << pageShift
	brought, err := m.sealed.Populate(from, min(last<<pageShift, m.foot.size)-from)
	if err != nil {
		return err
	}
	tags, err := m.sealed.Populate(m.foot.tagOff(first), tagSize*(last-first))
	if err != nil {
		return err
	}
	if m.kept.Add(brought+tags) > keptMax {
		return m.Trim()
	}
	return nil
}

// Trim gives the memory of the sealed file back. The file stays in the page cache, and a
// reader that is in the middle of it reads it from there again.
func (m *Mapping) Trim() error {
	if m.kept.Swap(0) == 0 {
		return nil
	}
	return m.sealed.DontNeed(0, m.foot.end())
}

// Populate decrypts the pages of [off, off+n) that are not there yet. It returns how many
// bytes it decrypted.
func (m *Mapping) Populate(off, n int64) (brought int64, err error) {
	if off < 0 || n < 0 || n > m.foot.size-off {
		return 0, base.Corrupt(off, "end of a part of a sealed file", off+n, m.foot.size)
	}
	first, last := off>>pageShift, pagesOf(off+n)
	for first < last && m.has(first) {
		first++
	}
	for first < last && m.has(last-1) {
		last--
	}
	if n == 0 || first >= last {
		return 0, nil
	}
	if err := m.fetch(first, last); err != nil {
		return 0, err
	}
	for first < last && err == nil {
		to := min(last, (first/groupPages+1)*groupPages)
		var got int64
		got, err = m.decrypt(first, to)
		brought += got
		first = to
	}
	return brought, err
}

// Fill announces that the caller will populate the whole file. It may then get huge pages,
// which make random reads faster.
func (m *Mapping) Fill() {
	if m.used.Load() < m.foot.size/8 {
		vfs.FillSparse(m.data)
	}
}

// scratches hold a sealed page and its tag.
var scratches = sync.Pool{New: func() any { return new([pageSize + tagSize]byte) }}

// decrypt decrypts the pages from first to last-1, which are of one group.
func (m *Mapping) decrypt(first, last int64) (brought int64, err error) {
	lock := &m.locks[first/groupPages%groups]
	lock.Lock()
	defer lock.Unlock() // a lost page of the sealed file is a panic
	b := scratches.Get().(*[pageSize + tagSize]byte)
	defer scratches.Put(b)
	for page := first; page < last; page++ {
		if m.has(page) {
			continue
		}
		dst := m.data[page<<pageShift : min((page+1)<<pageShift, m.foot.size)]
		if err = m.openTo(dst[:len(dst):len(dst)], b, page); err != nil {
			break
		}
		m.ready[page/64].Or(1 << uint(page%64))
		brought += int64(len(dst))
	}
	m.used.Add(brought)
	m.memory.used.Add(brought)
	return brought, err
}

// openTo decrypts a page to dst.
func (m *Mapping) openTo(dst []byte, b *[pageSize + tagSize]byte, page int64) error {
	bytes := m.sealed.Bytes()
	n := copy(b[:pageSize], bytes[page<<pageShift:min((page+1)<<pageShift, m.foot.size)])
	return base.InFile(openPage(m.aead, &m.foot, page, dst, b[:n], bytes[m.foot.tagOff(page):][:tagSize]), m.name)
}

// ReadAt decrypts a part of the file to p. It keeps nothing of it in memory.
func (m *Mapping) ReadAt(p []byte, off int64) (n int, err error) {
	if left := m.foot.size - off; left < int64(len(p)) {
		p, err = p[:max(0, left)], io.EOF
	}
	if len(p) == 0 {
		return 0, err
	}
	if err := m.fetch(off>>pageShift, pagesOf(off+int64(len(p)))); err != nil {
		return 0, err
	}
	b := scratches.Get().(*[pageSize + tagSize]byte)
	defer scratches.Put(b)
	var plain [pageSize]byte
	for n < len(p) {
		page := (off + int64(n)) >> pageShift
		from := m.data[page<<pageShift : min((page+1)<<pageShift, m.foot.size)]
		if !m.has(page) {
			from = plain[:len(from):len(from)]
			if err := m.openTo(from, b, page); err != nil {
				return n, err
			}
		}
		n += copy(p[n:], from[off+int64(n)-page<<pageShift:])
	}
	return n, err
}

// Close frees the pages.
func (m *Mapping) Close() error {
	m.memory.used.Add(-m.used.Swap(0))
	err := vfs.FreeSparse(m.data)
	m.data = nil
	return errors.Join(err, m.sealed.Close())
}
