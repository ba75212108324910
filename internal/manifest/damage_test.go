package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A closedManifest holds the bytes of a manifest that was closed in order.
type closedManifest struct {
	t     *testing.T
	fs    *memfs.FS
	path  string
	bytes []byte
	want  State
}

func newClosedManifest(t *testing.T, seed uint64) *closedManifest {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := &closedManifest{t: t, fs: memfs.NewVolatile()}
	must(t, c.fs.MkdirAll(testDir))
	s, err := Create(c.fs, testDir, firstState(), testRandom(seed), nil)
	must(t, err)
	for range 10 {
		must(t, s.Append(testEdit(rng, s.State())))
	}
	// The last edit stands alone behind its predecessor's mark.
	must(t, s.Append(Edit{NextFile: Some(s.State().NextFile + 1)}))
	c.want, c.path = s.State(), s.path(s.mu.file.number)
	must(t, s.Close())
	f, err := c.fs.Open(c.path, vfs.CatManifest)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	c.bytes = make([]byte, size)
	_, err = f.ReadAt(c.bytes, 0)
	must(t, err)
	must(t, f.Close())
	return c
}

// try loads the manifest from other bytes.
func (c *closedManifest) try(b []byte, what string, mustReport bool) {
	c.t.Helper()
	must(c.t, c.fs.Remove(c.path))
	f, err := c.fs.Create(c.path, vfs.CatManifest)
	must(c.t, err)
	_, err = f.WriteAt(b, 0)
	must(c.t, err)
	must(c.t, f.Close())
	c.load(what, mustReport)
}

// load fails the test unless Load reports the damage or the damage did no harm.
func (c *closedManifest) load(what string, mustReport bool) {
	c.t.Helper()
	_, got, err := Load(c.fs, testDir, true, nil, nil)
	var corrupt *base.CorruptionError
	switch {
	case err != nil && !errors.As(err, &corrupt):
		c.t.Fatalf("%s: %v, want a CorruptionError", what, err)
	case err != nil && corrupt.File == "":
		c.t.Fatalf("%s: %v does not name the file", what, err)
	case err == nil && !same(got, c.want):
		c.t.Fatalf("%s: %+v without an error, want %+v", what, got, c.want)
	case err == nil && mustReport:
		c.t.Fatalf("%s: no error", what)
	}
}

func TestDamage_FlippedBits(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	c := newClosedManifest(t, seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	f, err := c.fs.OpenReadWrite(c.path, vfs.CatManifest)
	must(t, err)
	flips := dose.Size(t, dose.Flips, 1000, 4000)
	for bit := range len(c.bytes) * 8 {
		// Most of the file is unused room.
		p := flips
		if c.bytes[bit/8] == 0 {
			p /= 10
		}
		if flips > 0 && rng.IntN(len(c.bytes)*8) > p {
			continue
		}
		at := int64(bit / 8)
		_, err = f.WriteAt([]byte{c.bytes[at] ^ 1<<(bit%8)}, at)
		must(t, err)
		c.load("bit flipped", false)
		_, err = f.WriteAt(c.bytes[at:at+1], at)
		must(t, err)
	}
}

func TestDamage_Sectors(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	c := newClosedManifest(t, seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	f, err := c.fs.OpenReadWrite(c.path, vfs.CatManifest)
	must(t, err)
	const sector, page = 512, 4096
	zeros, garbage := make([]byte, page), make([]byte, sector)
	write := func(at int, b []byte) {
		_, err := f.WriteAt(b, int64(at))
		must(t, err)
	}
	all := dose.Size(t, dose.Flips, 1, 4)
	for at := 0; at < len(c.bytes); at += sector {
		used := !bytes.Equal(c.bytes[at:at+sector], zeros[:sector])
		if !used && all > 0 && rng.IntN(16) > 0 {
			continue // unused room
		}
		for i := 0; i < sector; i += 8 {
			binary.LittleEndian.PutUint64(garbage[i:], rng.Uint64())
		}
		write(at, zeros[:sector])
		c.load("sector zeroed", false)
		write(at, garbage)
		c.load("sector of garbage", false)
		start := at / page * page
		write(start, zeros)
		c.load("page zeroed", false)
		write(start, c.bytes[start:start+page])
		for range max(all, 4) {
			other := rng.IntN(len(c.bytes)/sector) * sector
			write(at, c.bytes[other:other+sector])
			write(other, c.bytes[at:at+sector])
			c.load("sectors swapped", false)
			write(other, c.bytes[other:other+sector])
			write(at, c.bytes[at:at+sector])
		}
	}
}

func TestDamage_WrongLengthIsReported(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	c := newClosedManifest(t, seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	cuts := dose.Size(t, dose.Flips, 50, 300)
	for size := range len(c.bytes) {
		if cuts < 0 || size < 10 || rng.IntN(len(c.bytes)) < cuts {
			c.try(c.bytes[:size], "cut", true)
		}
	}
	c.try(append(append([]byte(nil), c.bytes...), 0), "lengthened", true)
}

func TestDamage_WrongNameIsReported(t *testing.T) {
	t.Parallel()
	c := newClosedManifest(t, 1)
	must(t, c.fs.Rename(c.path, c.fs.Join(testDir, FileName(77))))
	if _, _, err := Load(c.fs, testDir, true, nil, nil); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("%v", err)
	}
}

// If Load took a damaged record for the end, as at the end of a log, it would
// return an older state.
func TestDamage_IsNeverTakenForTheEnd(t *testing.T) {
	t.Parallel()
	c := newClosedManifest(t, 1)
	whole, _, err := Load(c.fs, testDir, true, nil, nil)
	must(t, err)
	f, err := c.fs.OpenReadWrite(c.path, vfs.CatManifest)
	must(t, err)
	for at := int64(record.Start); at < whole.mu.file.durable; at += int64(dose.Short(5*8, 8)) {
		was := c.bytes[at : at+8]
		for _, spoiled := range [][]byte{make([]byte, 8), bytes.Repeat([]byte{0xff}, 8)} {
			_, err := f.WriteAt(spoiled, at)
			must(t, err)
			c.load("eight bytes spoiled", !bytes.Equal(spoiled, was))
		}
		_, err := f.WriteAt(was, at)
		must(t, err)
	}
	must(t, f.Close())
}
