package seal

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// A reader is a sealed file that is open for reading.
type reader struct {
	vfs.File        // the sealed file
	base     string // its name without the directory
	aead     cipher.AEAD
	foot     footer
	memory   *Memory
}

// openReader verifies the footer of file. After an error the caller closes file.
func openReader(file vfs.File, name string, keys *Keys, label string) (*reader, error) {
	end, err := file.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(end, footerSize))
	if err := readFull(file, b, end-int64(len(b))); err != nil {
		return nil, err
	}
	r, err := readFooter(file, b, end, name, keys, label)
	if err != nil && keys.o.Fix {
		base.FixBit(b, func() bool {
			fixed, e := readFooter(file, b, end, name, keys, label)
			if e == nil {
				r, err = fixed, nil
			}
			return e == nil
		})
	}
	return r, err
}

// readFooter verifies b, the footer of a file of end bytes.
func readFooter(file vfs.File, b []byte, end int64, name string, keys *Keys, label string) (*reader, error) {
	foot, runs, err := decodeFooter(b, end)
	if err != nil {
		return nil, err
	}
	aead, err := keys.OpenFile(foot.key, label)
	if err != nil {
		return nil, err
	}
	at := end - footerSize - runSize*runs
	all := make([]byte, runSize*runs)
	if err := readFull(file, all, at); err != nil {
		return nil, err
	}
	nonce := footerNonce(foot.before)
	if _, err := aead.Open(nil, nonce[:], foot.tag[:], append(foot.appendFixed(nil, runs), all...)); err != nil {
		return nil, base.Corrupt(end-tagSize, "footer of a sealed file", "a wrong tag", "the tag of its contents")
	}
	if err := foot.decodeRuns(all, at); err != nil {
		return nil, err
	}
	return &reader{File: file, base: name, aead: aead, foot: foot, memory: &keys.Memory}, nil
}

// readFull fills b from offset at. If the file ends before, it is corrupt.
func readFull(file io.ReaderAt, b []byte, at int64) error {
	n, err := file.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return base.Corrupt(at+int64(n), "length of a sealed file", at+int64(n), fmt.Sprintf("at least %d", at+int64(len(b))))
	}
	return err
}

// Size returns the size of the plain file.
func (r *reader) Size() (int64, error) { return r.foot.size, nil }

// WriteAt and the others that change a file fail: a sealed file never changes.
func (r *reader) WriteAt([]byte, int64) (int, error) { return 0, r.unchanged(vfs.OpWrite) }

// Truncate fails.
func (r *reader) Truncate(int64) error { return r.unchanged(vfs.OpTruncate) }

// Preallocate fails.
func (r *reader) Preallocate(_, _ int64) (bool, error) {
	return false, r.unchanged(vfs.OpPreallocate)
}

func (r *reader) unchanged(op vfs.OpKind) error {
	return vfs.WrapError(op, r.Name(), vfs.ErrUnsupported)
}

// ReadAt decrypts a part of the file.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, vfs.WrapError(vfs.OpRead, r.Name(), vfs.ErrUnsupported)
	}
	if left := r.foot.size - off; left < int64(len(p)) {
		p, err = p[:max(0, left)], io.EOF
	}
	if len(p) == 0 {
		return 0, err
	}
	b := batches.Get().(*batch)
	defer batches.Put(b)
	for n < len(p) {
		took, err := r.readBatch(b, p[n:], off+int64(n))
		if err != nil {
			return n, err
		}
		n += took
	}
	return n, err
}

// readBatch decrypts the start of p, and returns how much that was.
func (r *reader) readBatch(b *batch, p []byte, off int64) (n int, err error) {
	first := off >> pageShift
	last := min(pagesOf(off+int64(len(p))), first+batchPages)
	from, to := first<<pageShift, min(last<<pageShift, r.foot.size)
	pages, tags := b.pages[:to-from], b.tags[:tagSize*(last-first)]
	if err := readFull(r.File, pages, from); err != nil {
		return 0, err
	}
	if err := readFull(r.File, tags, r.foot.tagOff(first)); err != nil {
		return 0, err
	}
	for at := 0; at < len(pages); at += pageSize {
		page := first + int64(at>>pageShift)
		sealed := pages[at:min(at+pageSize, len(pages))]
		tag := tags[tagSize*(page-first):][:tagSize]
		start := off + int64(n) - page<<pageShift // of p in the page
		if start == 0 && len(p)-n >= len(sealed) {
			err = openPage(r.aead, &r.foot, page, p[n:n+len(sealed):n+len(sealed)], sealed, tag)
			n += len(sealed)
		} else if err = openPage(r.aead, &r.foot, page, sealed, sealed, tag); err == nil {
			n += copy(p[n:], sealed[start:])
		}
		if err != nil {
			return 0, base.InFile(err, r.base)
		}
	}
	return n, nil
}

// Map returns a Mapping.
func (r *reader) Map(n int64) (vfs.Mapping, error) {
	if n != r.foot.size {
		return nil, vfs.WrapError(vfs.OpMap, r.Name(), vfs.ErrUnsupported)
	}
	m, err := newMapping(r)
	if err != nil {
		return nil, err
	}
	return m, nil
}
