package seal

import (
	"crypto/cipher"
	"io"
	"slices"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/vfs"
)

// A writer is a file that seals what is written to it. It keeps the last page in memory
// until that is full or the file is synced. Writing before the end is possible: the page
// is then read, and sealed again with another nonce. The tags stay in memory, a 256th of
// the file. Each sync writes them, with a footer, behind the pages.
type writer struct {
	file vfs.File // the sealed file
	aead cipher.AEAD

	// Guarded by mu.

	mu   sync.Mutex
	foot footer // without the runs
	// whole is how many pages the file has before the tail, which is not sealed.
	whole int64
	tail  []byte
	tags  []byte // of the whole pages
	// highest is above the number of each page that was ever sealed.
	highest int64
	// again says how often a page was sealed before its last time, if it was.
	again map[int64]uint32
}

func newWriter(file vfs.File, key base.KeyRef, aead cipher.AEAD) *writer {
	return &writer{file: file, aead: aead, foot: footer{key: key}, tail: make([]byte, 0, pageSize)}
}

func (w *writer) Name() string { return w.file.Name() }

func (w *writer) Close() error { return w.file.Close() }

// sizeLocked returns the size of the plain file. The caller holds mu.
func (w *writer) sizeLocked() int64 { return w.whole<<pageShift + int64(len(w.tail)) }

func (w *writer) Size() (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sizeLocked(), nil
}

// sealLocked seals a page to dst, which has room for the tag, and returns the tag.
func (w *writer) sealLocked(dst []byte, page int64, plain []byte) []byte {
	before := uint32(0)
	if page < w.highest {
		before = w.again[page] + 1
		if w.again == nil {
			w.again = map[int64]uint32{}
		}
		w.again[page] = before
	}
	w.highest = max(w.highest, page+1)
	nonce := pageNonce(page, before)
	sealed := w.aead.Seal(dst[:0], nonce[:], plain, nil)
	if mutant.On(mutant.PlainPage) {
		copy(sealed, plain)
	}
	return sealed[len(plain):]
}

func (w *writer) WriteAt(p []byte, off int64) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if off < 0 || off > sizeMax-int64(len(p)) {
		return 0, vfs.WrapError(vfs.OpWrite, w.Name(), vfs.ErrUnsupported)
	}
	if err := w.extendLocked(off); err != nil {
		return 0, err
	}
	// The pages before the tail are rewritten one by one: that is rare.
	for len(p) > 0 && off < w.whole<<pageShift {
		part := min(int64(len(p)), pageSize-off%pageSize)
		if err := w.patchLocked(p[:part], off); err != nil {
			return n, err
		}
		n, off, p = n+int(part), off+part, p[part:]
	}
	for len(p) > 0 {
		took, err := w.appendLocked(p, int(off-w.whole<<pageShift))
		n, off, p = n+took, off+int64(took), p[took:]
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// extendLocked appends zeros up to off.
func (w *writer) extendLocked(off int64) error {
	var zeros [pageSize]byte
	for size := w.sizeLocked(); size < off; size = w.sizeLocked() {
		if _, err := w.appendLocked(zeros[:min(off-size, pageSize)], len(w.tail)); err != nil {
			return err
		}
	}
	return nil
}

// appendLocked writes a part of p at index at of the tail, and returns how long that
// part is. It seals and writes full pages.
func (w *writer) appendLocked(p []byte, at int) (int, error) {
	if at > 0 || len(p) < pageSize {
		n := min(len(p), pageSize-at)
		w.tail = w.tail[:max(len(w.tail), at+n)]
		copy(w.tail[at:], p[:n])
		if len(w.tail) < pageSize {
			return n, nil
		}
		err := w.writeLocked(w.tail)
		return n, err
	}
	n := min(len(p)>>pageShift, batchPages) << pageShift
	return n, w.writeLocked(p[:n])
}

// writeLocked seals and writes whole pages in place of the tail.
func (w *writer) writeLocked(p []byte) error {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	tags := w.tags
	for at := 0; at < len(p); at += pageSize {
		tags = append(tags, w.sealLocked(b.pages[at:at+pageSize+tagSize], w.whole+int64(at>>pageShift), p[at:at+pageSize])...)
	}
	if _, err := w.file.WriteAt(b.pages[:len(p)], w.whole<<pageShift); err != nil {
		return err
	}
	w.tags, w.tail = tags, w.tail[:0]
	w.whole += int64(len(p) >> pageShift)
	return nil
}

// readLocked decrypts a whole page to dst.
func (w *writer) readLocked(dst []byte, page int64) error {
	var sealed [pageSize + tagSize]byte
	if n, err := w.file.ReadAt(sealed[:pageSize], page<<pageShift); n < pageSize {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	f := footer{}
	if before := w.again[page]; before > 0 {
		f.runs = []run{{page, 1, before}}
	}
	return openPage(w.aead, &f, page, dst, sealed[:pageSize], w.tags[tagSize*page:][:tagSize])
}

// patchLocked writes p into one page before the tail.
func (w *writer) patchLocked(p []byte, off int64) error {
	var plain [pageSize]byte
	var sealed [pageSize + tagSize]byte
	page := off >> pageShift
	if err := w.readLocked(plain[:], page); err != nil {
		return err
	}
	copy(plain[off%pageSize:], p)
	tag := w.sealLocked(sealed[:], page, plain[:])
	if _, err := w.file.WriteAt(sealed[:pageSize], page<<pageShift); err != nil {
		return err
	}
	copy(w.tags[tagSize*page:], tag)
	return nil
}

func (w *writer) ReadAt(p []byte, off int64) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var plain [pageSize]byte
	for n < len(p) {
		page := (off + int64(n)) >> pageShift
		from := plain[:]
		if page >= w.whole {
			from, page = w.tail, w.whole
		} else if err := w.readLocked(plain[:], page); err != nil {
			return n, err
		}
		at := off + int64(n) - page<<pageShift
		if at >= int64(len(from)) {
			return n, io.EOF
		}
		n += copy(p[n:], from[at:])
	}
	return n, nil
}

func (w *writer) Truncate(size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if size < 0 || size > sizeMax {
		return vfs.WrapError(vfs.OpTruncate, w.Name(), vfs.ErrUnsupported)
	}
	if size >= w.sizeLocked() {
		return w.extendLocked(size)
	}
	if page := size >> pageShift; page < w.whole {
		last := make([]byte, pageSize) // the tail stays if it cannot be read
		if err := w.readLocked(last, page); err != nil {
			return err
		}
		w.tail = append(w.tail[:0], last...)
		w.whole, w.tags = page, w.tags[:tagSize*page]
	}
	w.tail = w.tail[:size-w.whole<<pageShift]
	return w.file.Truncate(w.whole << pageShift)
}

// Preallocate only grows the file.
func (w *writer) Preallocate(off, n int64) (reserved bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if off < 0 || n < 0 || off > sizeMax-n {
		return false, vfs.WrapError(vfs.OpPreallocate, w.Name(), vfs.ErrUnsupported)
	}
	return false, w.extendLocked(off + n)
}

// written returns the part of [off, off+n) that has been written.
func (w *writer) written(off, n int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, min(n, w.whole<<pageShift-off))
}

// WillWrite does nothing: the writer writes whole pages.
func (w *writer) WillWrite(int64, int64) {}

func (w *writer) SyncRange(off, n int64) error { return w.file.SyncRange(off, w.written(off, n)) }
func (w *writer) WaitRange(off, n int64) error { return w.file.WaitRange(off, w.written(off, n)) }

func (w *writer) SyncData() error {
	if err := w.finish(); err != nil {
		return err
	}
	return w.file.SyncData()
}

func (w *writer) Sync() error {
	if err := w.finish(); err != nil {
		return err
	}
	return w.file.Sync()
}

// finish writes the tail, the tags, the runs and the footer. The tail stays in memory:
// if more follows, its page is sealed again.
func (w *writer) finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var end []byte
	tags := w.tags
	if n := len(w.tail); n > 0 {
		var sealed [pageSize + tagSize]byte
		tags = append(tags[:len(tags):len(tags)], w.sealLocked(sealed[:], w.whole, w.tail)...)
		end = append(end, sealed[:n]...)
	}
	f := &w.foot
	f.size, f.runs = w.sizeLocked(), w.runsLocked()
	end = f.appendRuns(append(end, tags...))
	nonce := footerNonce(f.before)
	fixed := f.appendFixed(nil, int64(len(f.runs)))
	tag := w.aead.Seal(nil, nonce[:], nil, f.appendRuns(fixed[:len(fixed):len(fixed)]))
	end = append(append(end, fixed...), tag...)
	f.before++
	if _, err := w.file.WriteAt(end, w.whole<<pageShift); err != nil {
		return err
	}
	size, err := w.file.Size()
	if err == nil && size > f.end() {
		err = w.file.Truncate(f.end())
	}
	return err
}

// runsLocked returns the pages of the file that were sealed more than once.
func (w *writer) runsLocked() (runs []run) {
	var pages []int64
	for page := range w.again {
		if page < pagesOf(w.sizeLocked()) {
			pages = append(pages, page)
		}
	}
	slices.Sort(pages)
	for _, page := range pages {
		before := w.again[page]
		if n := len(runs); n > 0 && runs[n-1].first+runs[n-1].count == page && runs[n-1].before == before {
			runs[n-1].count++
			continue
		}
		runs = append(runs, run{page, 1, before})
	}
	return runs
}

// Map is not possible before the file is opened again.
func (w *writer) Map(int64) (vfs.Mapping, error) {
	return nil, vfs.WrapError(vfs.OpMap, w.Name(), vfs.ErrUnsupported)
}
