package bits

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// at returns a file of the image and an offset in it. Half of the draws fall
// into sectors that hold something.
func (img *Image) at(rng *rand.Rand) (file int, offset int64) {
	for {
		file = rng.IntN(len(img.files))
		switch {
		case img.sizes[file] == 0:
			continue
		case rng.IntN(4) == 0 || len(img.used[file]) == 0:
			return file, rng.Int64N(img.sizes[file])
		}
		sector := img.used[file][rng.IntN(len(img.used[file]))]
		return file, min(sector+rng.Int64N(sectorSize), img.sizes[file]-1)
	}
}

func (img *Image) flip(file int, offset int64, bit int) damage {
	return damage{
		parts: []part{{img.files[file], offset, offset + 1}},
		name:  fmt.Sprintf("bit %d of byte %d of %s flipped", bit, offset, img.files[file]),
		do: func(disk *memfs.FS) error {
			f, err := disk.OpenReadWrite(img.files[file], vfs.CatNone)
			if err != nil {
				return err
			}
			defer f.Close()
			var b [1]byte
			if _, err := f.ReadAt(b[:], offset); err != nil {
				return err
			}
			b[0] ^= 1 << bit
			_, err = f.WriteAt(b[:], offset)
			return err
		},
	}
}

// flips draws n single bits.
func (img *Image) flips(n int, seed uint64) []damage {
	rng := rand.New(rand.NewPCG(seed, 0xb17))
	var list []damage
	for range n {
		file, offset := img.at(rng)
		list = append(list, img.flip(file, offset, rng.IntN(8)))
	}
	return list
}

// flipsAtEnd is a bit of every fourth byte of what was written last to the log.
func (img *Image) flipsAtEnd() []damage {
	file := slices.IndexFunc(img.files, func(path string) bool { return strings.HasSuffix(path, ".log") })
	content, err := testkit.ReadFile(img.disk, img.files[file])
	if err != nil {
		panic(err) // a memory disk does not fail
	}
	end := int64(len(bytes.TrimRight(content, "\x00")))
	var list []damage
	for offset := end - 320; offset < end; offset += 4 {
		list = append(list, img.flip(file, offset, int(offset/4%8)))
	}
	return list
}

// whole is all of a file.
func whole(path string) part { return part{path, 0, math.MaxInt64} }

// change rewrites a file as f says.
func (img *Image) change(name string, file int, f func(content []byte) []byte) damage {
	return damage{name: img.files[file] + ": " + name, parts: []part{whole(img.files[file])}, do: func(disk *memfs.FS) error {
		content, err := testkit.ReadFile(disk, img.files[file])
		if err != nil {
			return err
		}
		return testkit.WriteFile(disk, img.files[file], f(content))
	}}
}

// sectors zeroes every sector that holds something. It also replaces it by what the file
// held there before, by another sector, and by noise. It exchanges some pairs of sectors. A
// negative n, or a large one, takes all.
func (img *Image) sectors(n int, seed uint64) []damage {
	rng := rand.New(rand.NewPCG(seed, 0x5ec))
	var list []damage
	for file := range img.files {
		for _, sector := range img.used[file] {
			list = append(list, img.sectorDamages(file, sector, rng)...)
		}
	}
	if n >= 0 && len(list) > n {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:n]
	}
	return list
}

func (img *Image) sectorDamages(file int, sector int64, rng *rand.Rand) []damage {
	end := min(sector+sectorSize, img.sizes[file])
	other := rng.Int64N(img.sizes[file]/sectorSize+1) * sectorSize
	noise := make([]byte, sectorSize)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	within := func(d damage, sectors ...int64) damage {
		d.sector, d.parts = true, nil
		for _, at := range sectors {
			d.parts = append(d.parts, part{img.files[file], at, at + sectorSize})
		}
		return d
	}
	replace := func(what string, with func(content []byte) []byte) damage {
		return within(img.change(fmt.Sprintf("sector at %d %s", sector, what), file, func(content []byte) []byte {
			copied := make([]byte, end-sector)
			copy(copied, with(content))
			copy(content[sector:end], copied)
			return content
		}), sector)
	}
	var list []damage
	for _, older := range img.olderContents(file) {
		list = append(list, replace("older", func([]byte) []byte { return older[min(sector, int64(len(older))):] }))
	}
	return append(list,
		replace("zeroed", func([]byte) []byte { return nil }),
		replace("noise", func([]byte) []byte { return noise }),
		replace(fmt.Sprintf("replaced by that at %d", other), func(content []byte) []byte {
			return content[min(other, int64(len(content))):]
		}),
		within(img.change(fmt.Sprintf("sectors at %d and %d exchanged", sector, other), file, func(content []byte) []byte {
			for i := range min(end-sector, int64(len(content))-other) {
				content[sector+i], content[other+i] = content[other+i], content[sector+i]
			}
			return content
		}), sector, other),
	)
}

// olderContents returns what a file held at earlier times.
func (img *Image) olderContents(file int) (contents [][]byte) {
	for _, disk := range img.older {
		content, err := testkit.ReadFile(disk, img.files[file])
		if errors.Is(err, vfs.ErrNotExist) {
			continue
		}
		if err != nil {
			panic(err) // a memory disk does not fail
		}
		contents = append(contents, content)
	}
	return contents
}

// cut ends a file at a length.
func (img *Image) cut(file int, size int64) damage {
	return img.change(fmt.Sprintf("cut to %d", size), file, func(content []byte) []byte { return content[:size] })
}

// lengths cuts every file at some sectors, at n lengths drawn, and makes it
// longer. A negative n takes all sectors.
func (img *Image) lengths(n int, seed uint64) []damage {
	rng := rand.New(rand.NewPCG(seed, 0x1e4))
	var list []damage
	for file, size := range img.sizes {
		for range max(n/len(img.files), 8) {
			if size > 0 {
				list = append(list, img.cut(file, rng.Int64N(size)))
			}
		}
		for _, sector := range img.used[file] {
			if n < 0 || rng.IntN(len(img.used[file])) < 20 {
				list = append(list, img.cut(file, sector))
			}
		}
		list = append(list, img.change("longer by zeros", file, func(content []byte) []byte {
			return append(content, make([]byte, 8192)...)
		}), img.change("longer by itself", file, func(content []byte) []byte {
			return append(content, content...)
		}))
	}
	return list
}

// wholeFiles deletes each file, empties it, takes its older state, exchanges
// it with the others, copies it to names that are free, and adds strangers.
func (img *Image) wholeFiles() []damage {
	var list []damage
	for i, path := range img.files {
		list = append(list,
			damage{name: path + " deleted", parts: []part{whole(path)}, do: func(disk *memfs.FS) error { return disk.Remove(path) }},
			img.change("emptied", i, func([]byte) []byte { return nil }),
			img.change("all zeros", i, func(content []byte) []byte { return make([]byte, len(content)) }),
			damage{name: path + " copied to the next names", do: func(disk *memfs.FS) error {
				content, err := testkit.ReadFile(disk, path)
				if err != nil {
					return err
				}
				return errors.Join(
					testkit.WriteFile(disk, testkit.Dir+"/000099.log", content),
					testkit.WriteFile(disk, path+".tmp", content))
			}},
		)
		for _, older := range img.olderContents(i) {
			d := img.change("as it was earlier", i, func([]byte) []byte { return older })
			d.rollback = strings.Contains(path, "MANIFEST")
			list = append(list, d)
		}
		for j := range i {
			list = append(list, img.exchange(i, j))
		}
	}
	return list
}

func (img *Image) exchange(i, j int) damage {
	a, b := img.files[i], img.files[j]
	return damage{name: a + " and " + b + " exchanged", parts: []part{whole(a), whole(b)}, do: func(disk *memfs.FS) error {
		return errors.Join(disk.Rename(a, testkit.Dir+"/between"), disk.Rename(b, a), disk.Rename(testkit.Dir+"/between", b))
	}}
}
