package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// halves is the number of keys that begin with "a/" or "b/".
const halves = 1600

// writeHalves makes a database whose first keys begin with "a/", as many as a says, and the
// others with "b/". It returns the first table and its blocks.
func writeHalves(t *testing.T, a int) (disk *memfs.FS, path string, blocks []table.BlockInfo) {
	t.Helper()
	disk = memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Compression = stoat.CompressionNone })
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range halves {
			key := fmt.Appendf(nil, "b/%06d", i)
			if i < a {
				key[0] = 'a'
			}
			if err := tx.Set(key, bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
				return err
			}
		}
		return nil
	}))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	for name, content := range testkit.FilesOf(t, disk, testkit.Dir) {
		if !strings.HasSuffix(name, ".table") {
			continue
		}
		path, blocks = disk.Join(testkit.Dir, name), nil
		f, err := disk.Open(path, vfs.CatTable)
		testkit.Must(t, err)
		d, err := table.OpenDamaged(f, int64(len(content)), path, nil)
		testkit.Must(t, err)
		for b := range d.Blocks() {
			blocks = append(blocks, d.Block(b))
		}
		testkit.Must(t, f.Close())
		if bytes.HasSuffix(blocks[0].Entries[0].Key, []byte("a/000000")) {
			return disk, path, blocks
		}
	}
	t.Fatal("no table has the first key")
	return
}

// writeHalvesAtBlocks is writeHalves with the first key of "b/" at the beginning of the
// block that it also returns.
func writeHalvesAtBlocks(t *testing.T) (disk *memfs.FS, path string, a int, blocks []table.BlockInfo, second int) {
	t.Helper()
	a = halves / 4
	for range 10 {
		disk, path, blocks = writeHalves(t, a)
		first := 0
		for b := range blocks {
			if first == a {
				return disk, path, a, blocks, b
			}
			if first+len(blocks[b].Entries) > a {
				break
			}
			first += len(blocks[b].Entries)
		}
		a = first
	}
	t.Fatal("no block begins with the first key of b/")
	return
}

// flip changes a bit of a file.
func flip(t *testing.T, disk vfs.FS, path string, at int64) {
	t.Helper()
	content, err := testkit.ReadFile(disk, path)
	testkit.Must(t, err)
	content[at] ^= 1
	testkit.Must(t, disk.Remove(path))
	testkit.Must(t, testkit.WriteFile(disk, path, content))
}

// countLoop returns how many keys a loop delivers, and its error.
func countLoop(t *testing.T, fs vfs.FS, keys stoat.KeyProvider, o stoat.IterOptions) (n int, err error) {
	t.Helper()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: keys, ReadOnly: true})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	err = db.View(func(tx stoat.Txn) error {
		for range tx.Loop(o) {
			n++
		}
		return tx.Err()
	})
	return n, err
}

func TestLoop_DeliversItsRangeBesideADamagedBlock(t *testing.T) {
	t.Parallel()
	disk, path, a, blocks, second := writeHalvesAtBlocks(t)
	for _, c := range []struct {
		name   string
		at     int64
		o      stoat.IterOptions
		within int // keys in the range
	}{
		{"the keys of the next block", blocks[second].KeyOffset, stoat.IterOptions{Prefix: []byte("a/")}, a},
		{"the keys of the next block, without values", blocks[second].KeyOffset, stoat.IterOptions{Prefix: []byte("a/"), KeysOnly: true}, a},
		{"the values of the next block", blocks[second].ValOffset, stoat.IterOptions{Prefix: []byte("a/")}, a},
		{"the values of the block before", blocks[second-1].ValOffset, stoat.IterOptions{Prefix: []byte("b/"), Reverse: true}, halves - a},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			disk := disk.Clone()
			flip(t, disk, path, c.at)
			if n, err := countLoop(t, disk, nil, c.o); err != nil || n != c.within {
				t.Errorf("%d keys of %d: %v", n, c.within, err)
			}
			c.o.Prefix = nil
			n, err := countLoop(t, disk, nil, c.o)
			if !errors.Is(err, stoat.ErrCorrupt) || n >= halves {
				t.Errorf("a loop over everything: %d keys, %v", n, err)
			}
		})
	}
}

func TestLoop_DeliversItsRangeBesideATableThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	first := 0
	_, _, blocks := writeHalves(t, halves/4)
	for _, b := range blocks {
		first += len(b.Entries)
	}
	disk, path, blocks := writeHalves(t, first)
	if last := blocks[len(blocks)-1].Entries; first == halves || !bytes.HasSuffix(last[len(last)-1].Key, fmt.Appendf(nil, "a/%06d", first-1)) {
		t.Fatal("the first table does not end with a/")
	}
	for name, content := range testkit.FilesOf(t, disk, testkit.Dir) {
		if !strings.HasSuffix(name, ".table") {
			continue
		}
		bad, n, o := disk.Join(testkit.Dir, name), first, stoat.IterOptions{Prefix: []byte("a/")}
		if bad == path {
			n, o = halves-first, stoat.IterOptions{Prefix: []byte("b/"), Reverse: true}
		}
		disk := disk.Clone()
		flip(t, disk, bad, int64(len(content)-1))
		if got, err := countLoop(t, disk, nil, o); err != nil || got != n {
			t.Errorf("%s: %d keys of %d: %v", o.Prefix, got, n, err)
		}
		o.Prefix = nil
		if got, err := countLoop(t, disk, nil, o); !errors.Is(err, stoat.ErrCorrupt) || got > n {
			t.Errorf("a loop over everything: %d keys, %v", got, err)
		}
	}
}

func TestLoop_DeliversTheKeysBeforeADamagedBlock(t *testing.T) {
	t.Parallel()
	disk, path, a, blocks, second := writeHalvesAtBlocks(t)
	flip(t, disk, path, blocks[second].KeyOffset)
	if n, err := countLoop(t, disk, nil, stoat.IterOptions{}); n != a || !errors.Is(err, stoat.ErrCorrupt) {
		t.Errorf("forward: %d keys before the damage, want %d: %v", n, a, err)
	}
	// Backward, the damaged block may have a newer version of the last key before it.
	behind := halves - a - len(blocks[second].Entries) - 1
	if n, err := countLoop(t, disk, nil, stoat.IterOptions{Reverse: true}); n != behind || !errors.Is(err, stoat.ErrCorrupt) {
		t.Errorf("backward: %d keys before the damage, want %d: %v", n, behind, err)
	}
}

// badPageFS is a file system with a page, in files with a suffix, that cannot be fetched.
type badPageFS struct {
	vfs.FS
	suffix string
	at     int64 // an offset in the page
}

func (b *badPageFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	f, err := b.FS.Open(name, cat)
	if err != nil || !strings.HasSuffix(name, b.suffix) {
		return f, err
	}
	return badPageFile{f, b.at}, nil
}

type badPageFile struct {
	vfs.File
	at int64
}

func (f badPageFile) Map(n int64) (vfs.Mapping, error) {
	m, err := f.File.Map(n)
	if err != nil {
		return m, err
	}
	return badPageMapping{m, f.at}, nil
}

type badPageMapping struct {
	vfs.Mapping
	at int64
}

func (m badPageMapping) Populate(off, n int64) (int64, error) {
	if page := m.at &^ 4095; off < page+4096 && off+n > page {
		return 0, vfs.ErrIO
	}
	return m.Mapping.Populate(off, n)
}

// Reads in order fetch ahead of the range.
func TestLoop_DeliversItsRangeBeforeAnUnreadablePage(t *testing.T) {
	t.Parallel()
	const keys, size, ahead = 400, 2000, 48 << 10 // in bytes
	for _, file := range []string{".table", ".values"} {
		for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
			t.Run(file+" "+name, func(t *testing.T) {
				t.Parallel()
				disk, provider := memfs.New(), testkit.KeysIf(encrypted)
				db := testkit.OpenOn(t, disk, func(o *stoat.Options) {
					o.Compression, o.Keys, o.ValueThreshold = stoat.CompressionNone, provider, size/2
					if file == ".table" {
						o.ValueThreshold = 2 * size
					}
				})
				testkit.Must(t, db.Update(func(tx stoat.Txn) error {
					for i := range keys {
						if err := tx.Set(testkit.Key(i), bytes.Repeat([]byte{byte(i)}, size)); err != nil {
							return err
						}
					}
					return nil
				}))
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				testkit.Must(t, db.Close())
				const within = keys / 4 // the flush writes two files of each kind
				at, fs := int64(within*(size+20)+ahead), vfs.FS(disk)
				if encrypted {
					for name := range testkit.FilesOf(t, disk, testkit.Dir) {
						if strings.HasSuffix(name, file) {
							flip(t, disk, disk.Join(testkit.Dir, name), at)
						}
					}
				} else {
					fs = &badPageFS{disk, file, at}
				}
				for _, prefetch := range []int{0, -1} {
					o := stoat.IterOptions{Prefetch: prefetch, Upper: testkit.Key(within)}
					if n, err := countLoop(t, fs, provider, o); err != nil || n != within {
						t.Errorf("prefetch %d: %d keys of %d: %v", prefetch, n, within, err)
					}
					o.Upper = nil
					if n, err := countLoop(t, fs, provider, o); err == nil || n < within || n >= keys {
						t.Errorf("prefetch %d, a loop over everything: %d keys, %v", prefetch, n, err)
					}
				}
			})
		}
	}
}
