// Package keyfs shows the keys with a prefix as a read-only file system of package io/fs.
//
// A key without the prefix is the path of a file, and its value the content. A slash
// separates the elements of a path, so directories are where keys share elements. Keys
// whose paths fs.ValidPath refuses, or have a backslash, are left out. If a path is both a
// key and the directory of other keys, it is the directory.
//
// Each method reads one snapshot. An open file or directory keeps its snapshot until it is
// closed. Files have no time of modification.
package keyfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/mutant"
)

// Options choose what a file system shows. The zero value of every field means its default.
type Options struct {
	// Prefix is what the keys of all files begin with. It often ends with a slash. Default:
	// none.
	Prefix string
	// Keyspace has the keys. Default: the default keyspace.
	Keyspace *stoat.Keyspace
	// Snapshot is what all methods read, until the caller closes it. Default: each method
	// reads the newest snapshot.
	Snapshot *stoat.Snapshot
}

// An FS is a file system of keys. Any goroutine may use it. It implements fs.ReadFileFS,
// fs.ReadDirFS, fs.StatFS and fs.SubFS.
type FS struct {
	db *stoat.DB
	o  Options
}

// New returns the file system of a database.
func New(db *stoat.DB, o Options) *FS { return &FS{db, o} }

// begin begins the transaction of a method.
func (f *FS) begin() (tx stoat.Txn, err error) {
	if f.o.Snapshot != nil {
		tx, err = f.o.Snapshot.Begin()
	} else {
		tx, err = f.db.Begin(stoat.ReadOnly)
	}
	return tx.In(f.o.Keyspace), err
}

// view runs a method of the file system on a path.
func (f *FS) view(op, name string, fn func(tx stoat.Txn) error) error {
	err := fs.ErrInvalid
	if fs.ValidPath(name) {
		var tx stoat.Txn
		if tx, err = f.begin(); err == nil {
			defer tx.Discard()
			err = fn(tx)
		}
	}
	return pathError(op, name, err)
}

// pathError returns the error of an operation, with the path, or nil.
func pathError(op, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stoat.ErrNotFound), errors.Is(err, stoat.ErrEmptyKey), errors.Is(err, stoat.ErrKeyTooLarge):
		err = fs.ErrNotExist
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// key returns the key of a path, and the prefix of the keys below it if it is a directory.
func (f *FS) key(name string) (key, below []byte) {
	if name == "." {
		return nil, []byte(f.o.Prefix)
	}
	key = []byte(f.o.Prefix + name)
	return key, append(bytes.Clone(key), '/')
}

// Open opens a file or a directory. The caller must close it. A file also implements
// io.Seeker.
func (f *FS) Open(name string) (fs.File, error) {
	var opened fs.File
	if !fs.ValidPath(name) {
		return nil, pathError("open", name, fs.ErrInvalid)
	}
	tx, err := f.begin()
	if err == nil {
		opened, err = f.open(tx, name)
	}
	if err != nil {
		tx.Discard()
		return nil, pathError("open", name, err)
	}
	return opened, nil
}

func (f *FS) open(tx stoat.Txn, name string) (fs.File, error) {
	i, item, err := f.stat(tx, name)
	if err != nil {
		return nil, err
	}
	h := handle{tx: tx, name: name, info: i}
	if i.IsDir() {
		return &directory{handle: h, fs: f}, nil
	}
	content, err := item.Reader()
	return &file{handle: h, content: content}, err
}

// stat finds a path. For a file it returns its item, too.
func (f *FS) stat(tx stoat.Txn, name string) (info, stoat.Item, error) {
	i := info{name: path.Base(name)}
	key, below := f.key(name)
	if key == nil {
		i.dir = true
		return i, stoat.Item{}, nil
	}
	it := tx.Iterator(stoat.IterOptions{Prefix: below, KeysOnly: true})
	for it.Next() && !i.dir {
		i.dir = f.shows(it.Key())
	}
	if err := it.Close(); err != nil || i.dir {
		return i, stoat.Item{}, err
	}
	if !f.shows(key) {
		return i, stoat.Item{}, fs.ErrNotExist
	}
	item, err := tx.GetItem(key)
	if err == nil {
		i.size = item.ValueSize()
	}
	return i, item, err
}

// shows reports whether a key is a file.
func (f *FS) shows(key []byte) bool {
	name := string(key[len(f.o.Prefix):])
	return name != "." && fs.ValidPath(name) && !strings.Contains(name, `\`)
}

// list returns the entries of a directory, ordered by name.
func (f *FS) list(tx stoat.Txn, name string) ([]fs.DirEntry, error) {
	_, below := f.key(name)
	found := map[string]info{}
	it := tx.Iterator(stoat.IterOptions{Prefix: below, KeysOnly: true})
	defer it.Close()
	for more := it.First(); more; {
		if !f.shows(it.Key()) {
			more = it.Next()
			continue
		}
		rest := string(it.Key()[len(below):])
		element, _, dir := strings.Cut(rest, "/")
		if !dir {
			found[element] = info{name: element, size: it.Item().ValueSize()}
			more = it.Next()
			continue
		}
		found[element] = info{name: element, dir: true}
		// The first key after all below the element.
		next := byte('/' + 1)
		if mutant.On(mutant.FileBesideDirectory) {
			next++
		}
		more = it.Seek(append(append(bytes.Clone(below), element...), next))
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if len(found) == 0 && name != "." {
		return nil, f.noDirectory(tx, name)
	}
	entries := make([]fs.DirEntry, 0, len(found))
	for _, i := range found {
		entries = append(entries, i)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// noDirectory returns why a path is no directory.
func (f *FS) noDirectory(tx stoat.Txn, name string) error {
	if _, _, err := f.stat(tx, name); err != nil {
		return err
	}
	return errNotDirectory
}

var (
	errNotDirectory = errors.New("not a directory")
	errDirectory    = errors.New("is a directory")
	errTooLarge     = errors.New("larger than a slice can be on this system")
)

// ReadFile returns the content of a file, which belongs to the caller.
func (f *FS) ReadFile(name string) (content []byte, err error) {
	err = f.view("read", name, func(tx stoat.Txn) error {
		i, item, err := f.stat(tx, name)
		switch {
		case err != nil:
			return err
		case i.dir:
			return errDirectory
		case int64(int(i.size)) != i.size:
			return errTooLarge
		}
		content, err = item.ValueCopy(make([]byte, 0, i.size))
		return err
	})
	return content, err
}

// ReadDir returns the entries of a directory, ordered by name.
func (f *FS) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.view("readdir", name, func(tx stoat.Txn) error {
		entries, err = f.list(tx, name)
		return err
	})
	return entries, err
}

// Stat describes a file or a directory.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	var i info
	err := f.view("stat", name, func(tx stoat.Txn) (err error) {
		i, _, err = f.stat(tx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

// Sub returns the file system of a directory, which need not exist.
func (f *FS) Sub(dir string) (fs.FS, error) {
	if !fs.ValidPath(dir) {
		return nil, pathError("sub", dir, fs.ErrInvalid)
	}
	sub := *f
	_, below := f.key(dir)
	if mutant.On(mutant.FileNeighbour) {
		below = bytes.TrimSuffix(below, []byte("/"))
	}
	sub.o.Prefix = string(below)
	return &sub, nil
}

// A handle is what an open file and an open directory have in common.
type handle struct {
	tx     stoat.Txn
	name   string
	info   info
	closed bool
}

// Stat implements fs.File.
func (h *handle) Stat() (fs.FileInfo, error) { return h.info, h.check("stat") }

func (h *handle) check(op string) error {
	if h.closed {
		return pathError(op, h.name, fs.ErrClosed)
	}
	return nil
}

// Close implements fs.File.
func (h *handle) Close() error {
	err := h.check("close")
	h.closed = true
	h.tx.Discard()
	return err
}

// A file is an open file.
type file struct {
	handle
	content io.ReadSeeker
}

// Read implements fs.File.
func (f *file) Read(b []byte) (int, error) {
	if err := f.check("read"); err != nil {
		return 0, err
	}
	n, err := f.content.Read(b)
	if mutant.On(mutant.FileEndsEarly) && err == nil && n == len(b) {
		err = io.EOF
	}
	if err != nil && err != io.EOF {
		err = pathError("read", f.name, err)
	}
	return n, err
}

// Seek implements io.Seeker.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	if err := f.check("seek"); err != nil {
		return 0, err
	}
	n, err := f.content.Seek(offset, whence)
	return n, pathError("seek", f.name, err)
}

// A directory is an open directory.
type directory struct {
	handle
	fs      *FS
	listed  bool
	entries []fs.DirEntry // not returned yet
}

// Read implements fs.File. It always fails.
func (d *directory) Read([]byte) (int, error) { return 0, pathError("read", d.name, errDirectory) }

// ReadDir implements fs.ReadDirFile.
func (d *directory) ReadDir(n int) ([]fs.DirEntry, error) {
	if err := d.check("readdir"); err != nil {
		return nil, err
	}
	if !d.listed {
		var err error
		if d.entries, err = d.fs.list(d.tx, d.name); err != nil {
			return nil, pathError("readdir", d.name, err)
		}
		d.listed = true
	}
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	some := d.entries[:n:n]
	d.entries = d.entries[n:]
	return some, nil
}
