package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/keyfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fileRounds is the number of trees that a life with files compares.
const fileRounds = 12

// fileElements are the elements of paths. Some sort directly before or after the keys below
// "a", and some are no elements of a valid path.
var fileElements = []string{"a", "a.", "a0", "ab", "b", "b-x", "b0", "long name", "\xc3\xa4", "a", "b", "c", "", ".", "..", `a\b`, "\xff"}

// filePrefixes are what keys begin with: that of a file system, and its neighbours.
var filePrefixes = []string{"p/", "p", "p.", "p0", "q/", ""}

// A fileLife is a life of a database that is shown as files.
type fileLife struct {
	rng *rand.Rand
	db  *stoat.DB
	ks  *stoat.Keyspace
	has map[string][]byte
}

// RunFiles plays a life of a database whose keys are files, and compares them with a file
// system of the standard library.
func RunFiles(seed uint64) (err error) {
	l := &fileLife{rng: rand.New(rand.NewPCG(seed, 0xf11e)), has: map[string][]byte{}}
	o := &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable, Durability: stoat.Buffered}
	if l.db, err = stoat.Open(testkit.Dir, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.db.Close()) }()
	if l.rng.IntN(2) == 0 {
		if l.ks, err = l.db.Keyspace("files", nil); err != nil {
			return err
		}
	}
	for i := range fileRounds {
		if err = l.write(); err == nil {
			err = l.look()
		}
		if err != nil {
			return fmt.Errorf("life %d with files, round %d: %w", seed, i, err)
		}
	}
	return nil
}

// write sets and deletes files, and sometimes compacts.
func (l *fileLife) write() error {
	err := l.db.Update(func(tx stoat.Txn) error {
		tx = tx.In(l.ks)
		for range 1 + l.rng.IntN(30) {
			path := make([]string, 1+l.rng.IntN(4))
			for i := range path {
				path[i] = fileElements[l.rng.IntN(len(fileElements))]
			}
			key := filePrefixes[l.rng.IntN(len(filePrefixes))] + strings.Join(path, "/")
			if key == "" {
				continue
			}
			if l.rng.IntN(5) == 0 {
				delete(l.has, key)
				if err := tx.Delete([]byte(key)); err != nil {
					return err
				}
				continue
			}
			l.has[key] = []byte(testkit.RandomValue(l.rng, []int{1, 600, 20_000}[l.rng.IntN(3)]))
			if err := tx.Set([]byte(key), l.has[key]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && l.rng.IntN(3) == 0 {
		err = l.db.Compact(context.Background(), stoat.CompactOptions{})
	}
	return err
}

// tree returns the files that the keys with a prefix are.
func (l *fileLife) tree(prefix string) fstest.MapFS {
	files := fstest.MapFS{}
	for key, content := range l.has {
		path, below := strings.CutPrefix(key, prefix)
		if below && path != "." && fs.ValidPath(path) && !strings.Contains(path, `\`) {
			files[path] = &fstest.MapFile{Data: content, Mode: 0o444}
		}
	}
	for path := range maps.Clone(files) {
		for i, c := range path {
			if c == '/' { // a path that is a directory is no file
				delete(files, path[:i])
			}
		}
	}
	return files
}

// look compares all file systems with what they should have, and one directory of each.
func (l *fileLife) look() error {
	for _, prefix := range filePrefixes {
		got, want := fs.FS(keyfs.New(l.db, keyfs.Options{Prefix: prefix, Keyspace: l.ks})), l.tree(prefix)
		if err := l.compare(got, want); err != nil {
			return fmt.Errorf("prefix %q: %w", prefix, err)
		}
		for _, dir := range []string{"a", "b/a"} {
			inner, err := fs.Sub(got, dir)
			if err == nil {
				err = l.compare(inner, l.tree(prefix+dir+"/"))
			}
			if err != nil {
				return fmt.Errorf("prefix %q, directory %q: %w", prefix, dir, err)
			}
		}
	}
	prefix := filePrefixes[l.rng.IntN(len(filePrefixes))]
	return fstest.TestFS(keyfs.New(l.db, keyfs.Options{Prefix: prefix, Keyspace: l.ks}), slices.Collect(maps.Keys(l.tree(prefix)))...)
}

// compare demands that two file systems have the same tree.
func (l *fileLife) compare(got, want fs.FS) error {
	g, err := l.walk(got)
	if err != nil {
		return err
	}
	w, err := l.walk(want)
	if err != nil {
		return err
	}
	for i := range max(len(g), len(w)) {
		switch {
		case i == len(g):
			return fmt.Errorf("%.60q is missing", w[i])
		case i == len(w):
			return fmt.Errorf("%.60q should not be there", g[i])
		case g[i] != w[i]:
			return fmt.Errorf("there is %.60q, want %.60q", g[i], w[i])
		}
	}
	return nil
}

// walk describes all directories and files of a file system, in order.
func (l *fileLife) walk(files fs.FS) (all []string, err error) {
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		stat, err := fs.Stat(files, path)
		if err != nil {
			return err
		}
		if stat.IsDir() != d.IsDir() || stat.Name() != d.Name() && path != "." {
			return fmt.Errorf("%q: a directory %v, by its own Stat %v", path, d.IsDir(), stat.IsDir())
		}
		if d.IsDir() {
			all = append(all, path+" is a directory")
			return nil
		}
		content, err := fs.ReadFile(files, path)
		if err == nil {
			err = l.readInParts(files, path, content)
		}
		if err == nil && stat.Size() != int64(len(content)) {
			err = fmt.Errorf("%q has %d bytes, by its Stat %d", path, len(content), stat.Size())
		}
		all = append(all, fmt.Sprintf("%s has %s", path, content))
		return err
	})
	return all, err
}

// readInParts demands that an open file has the content, whatever the size of a read is.
func (l *fileLife) readInParts(files fs.FS, path string, want []byte) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	from := int64(0)
	if seeker, ok := f.(io.Seeker); ok && l.rng.IntN(2) == 0 {
		from = l.rng.Int64N(int64(len(want)) + 1)
		if _, err := seeker.Seek(from, io.SeekStart); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	var got bytes.Buffer
	part := make([]byte, 1+l.rng.IntN(1000))
	for err == nil {
		var n int
		n, err = f.Read(part)
		got.Write(part[:n])
	}
	if err == io.EOF {
		err = nil
	}
	if err == nil && !bytes.Equal(got.Bytes(), want[from:]) {
		err = fmt.Errorf("%q has %d bytes behind byte %d, want %d", path, got.Len(), from, len(want[from:]))
	}
	return errors.Join(err, f.Close())
}
