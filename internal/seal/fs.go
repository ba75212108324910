package seal

import (
	"crypto/cipher"
	"fmt"
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// FS returns fs with tables and value files sealed. Create returns files that encrypt what
// is written to them, and Open returns files that decrypt it. Sizes and offsets are those
// of the plain files, except in Stat. A created file can be opened once it is synced. Other
// files stay as they are.
func (k *Keys) FS(fs vfs.FS) vfs.FS { return &sealedFS{FS: fs, keys: k} }

type sealedFS struct {
	vfs.FS
	keys *Keys
}

// label returns what the key of a file is derived for, and whether files of that
// category are sealed.
func label(cat vfs.Category, name string) (string, bool) {
	switch cat {
	case vfs.CatTable:
		return "stoat table " + name, true
	case vfs.CatValue:
		return "stoat values " + name, true
	}
	return "", false
}

// Create creates a file.
func (s *sealedFS) Create(name string, cat vfs.Category) (vfs.File, error) {
	what, sealed := label(cat, s.Base(name))
	if !sealed {
		return s.FS.Create(name, cat)
	}
	ref, aead, err := s.keys.NewFile(what)
	if err != nil {
		return nil, err
	}
	file, err := s.FS.Create(name, cat)
	if err != nil {
		return nil, err
	}
	return newWriter(file, ref, aead), nil
}

// Open opens a file for reading.
func (s *sealedFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	file, err := s.FS.Open(name, cat)
	what, sealed := label(cat, s.Base(name))
	if err != nil || !sealed {
		return file, err
	}
	f, err := openReader(file, s.Base(name), s.keys, what)
	if err != nil {
		_ = file.Close() // it was only read; the known error says more
		return nil, base.InFile(err, s.Base(name))
	}
	return f, nil
}

// OpenReadWrite opens a file for reading and writing. Sealed files do not allow it.
func (s *sealedFS) OpenReadWrite(name string, cat vfs.Category) (vfs.File, error) {
	if _, sealed := label(cat, s.Base(name)); sealed {
		return nil, fmt.Errorf("open %s: a sealed file is not written again: %w", name, vfs.ErrUnsupported)
	}
	return s.FS.OpenReadWrite(name, cat)
}

// batchPages is how many pages are read or written together.
const batchPages = 128

// A batch is a buffer for pages, with room for a tag behind the last one.
type batch struct {
	pages [batchPages*pageSize + tagSize]byte
	tags  [batchPages * tagSize]byte
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// openPage decrypts the page with the given number to dst. sealed is the sealed page, in
// a slice with tagSize bytes of room. openPage leaves the bytes behind it unchanged. dst
// and sealed may begin at the same byte, but must not overlap otherwise.
func openPage(aead cipher.AEAD, f *footer, page int64, dst, sealed, tag []byte) error {
	var behind [tagSize]byte
	n := len(sealed)
	text := sealed[:n+tagSize]
	copy(behind[:], text[n:])
	copy(text[n:], tag)
	nonce := pageNonce(page, f.sealedBefore(page))
	_, err := aead.Open(dst[:0], nonce[:], text, nil)
	copy(text[n:], behind[:])
	if err != nil {
		return base.Corrupt(page<<pageShift, "sealed page", "a wrong tag", "the tag of its contents")
	}
	return nil
}
