package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// provider has one master key.
type provider struct {
	id  string
	key []byte
}

func (p *provider) Current(context.Context) (string, []byte, error) { return p.id, p.key, nil }

func (p *provider) Key(_ context.Context, id string) ([]byte, error) {
	if id != p.id {
		return nil, errors.New("no such key")
	}
	return p.key, nil
}

func options(fs vfs.FS) Options {
	return Options{FS: fs, Dir: "/db", Provider: &provider{"m", bytes.Repeat([]byte{7}, KeySize)},
		Clock: base.SystemClock{}, MaxAge: time.Hour, Random: rand.NewChaCha8([32]byte{1})}
}

// newFS returns a disk and a sealed view of it.
func newFS(t testing.TB) (disk *memfs.FS, keys *Keys, sealed vfs.FS) {
	t.Helper()
	disk = memfs.New()
	must(t, disk.MkdirAll("/db"))
	keys, err := Create(t.Context(), options(disk))
	must(t, err)
	return disk, keys, keys.FS(disk)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const testName = "/db/000001.table"

// write makes a sealed file.
func write(t testing.TB, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.CatTable)
	must(t, err)
	_, err = f.WriteAt(content, 0)
	must(t, err)
	must(t, f.SyncData())
	must(t, f.Close())
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// checkFile demands that the file has this content, by all ways to read it.
func checkFile(t testing.TB, fs vfs.FS, name string, want []byte, rng *rand.Rand) {
	t.Helper()
	f, err := fs.Open(name, vfs.CatTable)
	must(t, err)
	defer f.Close()
	if n, err := f.Size(); err != nil || n != int64(len(want)) {
		t.Fatalf("size %d, %v, want %d", n, err, len(want))
	}
	mapped, err := f.Map(int64(len(want)))
	must(t, err)
	defer mapped.Close()
	m := mapped.(*Mapping)
	for range 50 {
		off := rng.IntN(len(want) + 1)
		n := rng.IntN(min(len(want)-off, 3*pageSize) + 1)
		for what, r := range map[string]io.ReaderAt{"file": f, "mapping": m} {
			b := make([]byte, n)
			if got, err := r.ReadAt(b, int64(off)); got != n || err != nil || !bytes.Equal(b, want[off:off+n]) {
				t.Fatalf("%s: read of %d at %d: %d, %v", what, n, off, got, err)
			}
		}
		if rng.IntN(4) == 0 {
			before := m.Used()
			brought, err := m.Populate(int64(off), int64(n))
			if err != nil || m.Used()-before != brought {
				t.Fatalf("populate %d at %d: %d, %v", n, off, brought, err)
			}
			if !bytes.Equal(m.Bytes()[off:off+n], want[off:off+n]) {
				t.Fatalf("the mapping differs at %d", off)
			}
		}
	}
	_, err = m.Populate(0, int64(len(want)))
	must(t, err)
	must(t, m.Trim())
	if m.Used() != int64(len(want)) || !bytes.Equal(m.Bytes(), want) {
		t.Fatalf("%d bytes are populated, want %d", m.Used(), len(want))
	}
	b := make([]byte, len(want)+1)
	if n, err := f.ReadAt(b, 0); n != len(want) || err != io.EOF || !bytes.Equal(b[:n], want) {
		t.Fatalf("read beyond the end: %d, %v", n, err)
	}
}

// TestFile_IsWhatWasWritten writes at random places, truncates and syncs, and compares
// the file with a slice.
func TestFile_IsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		_, keys, fs := newFS(t)
		f, err := fs.Create(testName, vfs.CatTable)
		must(t, err)
		var want []byte
		for range 1 + rng.IntN(30) {
			off := len(want)
			switch rng.IntN(8) {
			case 0:
				off = rng.IntN(len(want) + 1)
			case 1:
				off += rng.IntN(2 * pageSize)
			case 2:
				n := rng.IntN(len(want) + pageSize)
				must(t, f.Truncate(int64(n)))
				want = append(want, make([]byte, max(0, n-len(want)))...)[:n]
				continue
			case 3:
				must(t, f.SyncData())
				continue
			}
			p := random(rng, []int{rng.IntN(100), rng.IntN(3 * pageSize), pageSize, (batchPages + 2) * pageSize}[rng.IntN(4)])
			if len(p) == 0 {
				continue
			}
			n, err := f.WriteAt(p, int64(off))
			if n != len(p) || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
			want = append(want, make([]byte, max(0, off+len(p)-len(want)))...)
			copy(want[off:], p)
			part := make([]byte, rng.IntN(len(want)+1))
			if _, err := f.ReadAt(part, 0); err != nil || !bytes.Equal(part, want[:len(part)]) {
				t.Fatalf("read of the file that is written: %v", err)
			}
		}
		must(t, f.Sync())
		must(t, f.Close())
		checkFile(t, fs, testName, want, rng)
		if keys.Memory.Used() != 0 {
			t.Fatalf("%d bytes of pages are left", keys.Memory.Used())
		}
	}
}

// readAll reads a whole sealed file through a mapping.
func readAll(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name, vfs.CatTable)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	m, err := f.Map(size)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if _, err := m.Populate(0, size); err != nil {
		return nil, err
	}
	return bytes.Clone(m.Bytes()), nil
}

func rawFile(t testing.TB, disk *memfs.FS, name string) []byte {
	t.Helper()
	f, err := disk.Open(name, vfs.CatNone)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return b
}

func setRaw(t testing.TB, disk *memfs.FS, name string, b []byte) {
	t.Helper()
	f, err := disk.OpenReadWrite(name, vfs.CatNone)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(int64(len(b))))
	_, err = f.WriteAt(b, 0)
	must(t, err)
}

func wantCorrupt(t *testing.T, what string, fs vfs.FS) {
	t.Helper()
	_, err := readAll(fs, testName)
	var c *base.CorruptionError
	if !errors.As(err, &c) || c.File != "000001.table" {
		t.Errorf("%s: %v", what, err)
	}
}

func TestFile_DamageIsCorruption(t *testing.T) {
	t.Parallel()
	disk, _, fs := newFS(t)
	rng := rand.New(rand.NewPCG(1, 2))
	content := random(rng, 5*pageSize+100)
	write(t, fs, testName, content)
	write(t, fs, "/db/000002.table", content)
	raw, other := rawFile(t, disk, testName), rawFile(t, disk, "/db/000002.table")
	if bytes.Contains(raw, content[:32]) {
		t.Fatal("the file has plain text")
	}
	for range 400 {
		at := rng.IntN(8 * len(raw))
		b := bytes.Clone(raw)
		b[at/8] ^= 1 << (at % 8)
		setRaw(t, disk, testName, b)
		wantCorrupt(t, fmt.Sprintf("flip of bit %d", at), fs)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"another file": func([]byte) []byte { return bytes.Clone(other) },
		"swapped pages with their tags": func(b []byte) []byte {
			swap(b, 0, pageSize, pageSize)
			swap(b, len(content), len(content)+tagSize, tagSize)
			return b
		},
		"a page of another file": func(b []byte) []byte {
			copy(b[pageSize:], other[pageSize:2*pageSize])
			copy(b[len(content)+tagSize:], other[len(content)+tagSize:][:tagSize])
			return b
		},
		"cut in the pages":  func(b []byte) []byte { return b[:pageSize] },
		"cut in the tags":   func(b []byte) []byte { return b[:len(content)+20] },
		"cut in the footer": func(b []byte) []byte { return b[:len(b)-1] },
		"empty":             func([]byte) []byte { return nil },
		"longer":            func(b []byte) []byte { return append(b, 0) },
		"a page less": func(b []byte) []byte {
			foot := b[len(b)-footerSize:]
			short := bytes.Clone(b[:4*pageSize])
			short = append(append(short, b[len(content):][:4*tagSize]...), foot...)
			foot = short[len(short)-footerSize:]
			copy(foot[56:], []byte{0, 4 * pageSize >> 8, 0, 0, 0, 0, 0, 0})
			return short
		},
		"plain": func([]byte) []byte { return content },
	} {
		setRaw(t, disk, testName, change(bytes.Clone(raw)))
		wantCorrupt(t, name, fs)
	}
	setRaw(t, disk, testName, raw)
	if got, err := readAll(fs, testName); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("the undamaged file: %v", err)
	}
}

func swap(b []byte, i, j, n int) {
	kept := bytes.Clone(b[i : i+n])
	copy(b[i:i+n], b[j:j+n])
	copy(b[j:j+n], kept)
}

// TestFile_OlderPageIsCorruption puts an earlier state of one page back, with its tag.
func TestFile_OlderPageIsCorruption(t *testing.T) {
	t.Parallel()
	disk, _, fs := newFS(t)
	f, err := fs.Create(testName, vfs.CatTable)
	must(t, err)
	_, err = f.WriteAt(make([]byte, 3*pageSize), 0)
	must(t, err)
	must(t, f.SyncData())
	old := rawFile(t, disk, testName)
	_, err = f.WriteAt([]byte("new"), pageSize)
	must(t, err)
	must(t, f.SyncData())
	must(t, f.Close())
	b := rawFile(t, disk, testName)
	copy(b[pageSize:2*pageSize], old[pageSize:])
	copy(b[3*pageSize+tagSize:3*pageSize+2*tagSize], old[3*pageSize+tagSize:])
	setRaw(t, disk, testName, b)
	wantCorrupt(t, "an older page", fs)
	// The older state as a whole verifies: only what names the file can tell.
	setRaw(t, disk, testName, old)
	if _, err := readAll(fs, testName); err != nil {
		t.Fatal(err)
	}
}

func TestMapping_ConcurrentReadersShareIt(t *testing.T) {
	t.Parallel()
	_, keys, fs := newFS(t)
	content := random(rand.New(rand.NewPCG(1, 2)), 100*pageSize+5)
	write(t, fs, testName, content)
	f, err := fs.Open(testName, vfs.CatTable)
	must(t, err)
	m, err := f.Map(int64(len(content)))
	must(t, err)
	must(t, f.Close())
	done := make(chan error)
	for g := range uint64(8) {
		go func() {
			rng := rand.New(rand.NewPCG(g, 3))
			for range 200 {
				off := rng.IntN(len(content))
				n := rng.IntN(min(len(content)-off, 5*pageSize))
				if _, err := m.Populate(int64(off), int64(n)); err != nil {
					done <- err
					return
				}
				if !bytes.Equal(m.Bytes()[off:off+n], content[off:off+n]) {
					done <- fmt.Errorf("%d bytes at %d differ", n, off)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		must(t, <-done)
	}
	if used := keys.Memory.Used(); used > int64(len(content)) || used != m.(*Mapping).Used() {
		t.Errorf("%d bytes of pages, the file has %d", used, len(content))
	}
	must(t, m.Close())
	if keys.Memory.Used() != 0 {
		t.Errorf("%d bytes of pages are left", keys.Memory.Used())
	}
}

func TestKeys_OldOnesStayReadable(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	must(t, disk.MkdirAll("/db"))
	o := options(disk)
	o.MaxAge = 0 // each file gets a new data key
	keys, err := Create(t.Context(), o)
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 5 {
		write(t, keys.FS(disk), fmt.Sprintf("/db/%06d.table", i), []byte{byte(i)})
	}
	if keys.DataKeys() != 6 {
		t.Errorf("%d data keys, want 6", keys.DataKeys())
	}
	again, err := Load(t.Context(), options(disk))
	must(t, err)
	for i := range 5 {
		checkFile(t, again.FS(disk), fmt.Sprintf("/db/%06d.table", i), []byte{byte(i)}, rng)
	}
	must(t, disk.MkdirAll("/copy"))
	must(t, keys.CopyTo("/copy"))
	o.Dir, o.ReadOnly = "/copy", true
	copied, err := Load(t.Context(), o)
	must(t, err)
	checkFile(t, copied.FS(disk), "/db/000003.table", []byte{3}, rng)
}

func TestKeys_OfAReaderFindWhatTheWriterAdds(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	must(t, disk.MkdirAll("/db"))
	o := options(disk)
	o.MaxAge = 0
	keys, err := Create(t.Context(), o)
	must(t, err)
	reading := options(disk)
	reading.ReadOnly = true
	reader, err := Load(t.Context(), reading)
	must(t, err)
	write(t, keys.FS(disk), "/db/000001.table", []byte("later"))
	checkFile(t, reader.FS(disk), "/db/000001.table", []byte("later"), rand.New(rand.NewPCG(1, 1)))
	if _, err := reader.OpenFile(base.KeyRef{ID: 99}, "none"); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a key that never was: %v", err)
	}
}

// TestKeys_SurviveAnyCrash replaces KEYS and crashes.
func TestKeys_SurviveAnyCrash(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		disk := memfs.New()
		must(t, disk.MkdirAll("/db"))
		keys, err := Create(t.Context(), options(disk))
		must(t, err)
		var cuts []*memfs.FS
		disk.SetHook(func(vfs.Op) { cuts = append(cuts, disk.Clone()) })
		next := &provider{"next", bytes.Repeat([]byte{9}, KeySize)}
		keys.o.Provider = next
		must(t, keys.RotateMaster(t.Context()))
		disk.SetHook(nil)
		for i, cut := range cuts {
			for _, kind := range memfs.CrashKinds() {
				left := cut.Crash(kind, rand.New(rand.NewPCG(seed, uint64(i))))
				o, p := options(left), options(left)
				p.Provider = next
				_, err := Load(t.Context(), o)
				if errors.Is(err, base.ErrKey) {
					_, err = Load(t.Context(), p)
				}
				if err != nil {
					t.Fatalf("cut %d, %v: %v", i, kind, err)
				}
			}
		}
	}
}

func TestKeys_DamageIsCorruption(t *testing.T) {
	t.Parallel()
	disk, _, _ := newFS(t)
	raw := rawFile(t, disk, "/db/KEYS")
	if bytes.Contains(raw, bytes.Repeat([]byte{7}, 8)) {
		t.Error("KEYS has the master key")
	}
	for at := range 8 * len(raw) {
		b := bytes.Clone(raw)
		b[at/8] ^= 1 << (at % 8)
		setRaw(t, disk, "/db/KEYS", b)
		if _, err := Load(t.Context(), options(disk)); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("flip of bit %d: %v", at, err)
		}
	}
}

// FuzzFooter decodes a footer and its runs. They must be refused, or encode to the same
// bytes.
func FuzzFooter(f *testing.F) {
	good := footer{key: base.KeyRef{ID: 3}, size: 9*pageSize + 1, runs: []run{{0, 1, 1}, {3, 2, 7}}}
	f.Add(append(good.appendRuns(nil), append(good.appendFixed(nil, 2), make([]byte, tagSize)...)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < footerSize {
			return
		}
		at := len(b) - footerSize
		foot, runs, err := decodeFooter(b[at:], int64(len(b)))
		if err != nil {
			// The pages and the tags are not in b: take the size that the footer says.
			size := int64(len(b)) + pagesOf(foot.size)*tagSize + foot.size
			foot, runs, err = decodeFooter(b[at:], size)
		}
		if err == nil && runs*runSize != int64(at) {
			return
		}
		if err == nil {
			err = foot.decodeRuns(b[:at], 0)
		}
		switch {
		case err == nil && !bytes.Equal(b, append(foot.appendRuns(nil), append(foot.appendFixed(nil, runs), foot.tag[:]...)...)):
			t.Fatalf("%x is %+v", b, foot)
		case err != nil && !errors.Is(err, base.ErrCorrupt):
			t.Fatal(err)
		}
	})
}

// FuzzKeyFile decodes a file of data keys, with a right checksum or its own. A file that
// opens must encode to the same bytes.
func FuzzKeyFile(f *testing.F) {
	master := bytes.Repeat([]byte{7}, KeySize)
	good := keyFile{master: "m", keys: []dataKey{{id: 1, made: 5}, {id: 4}}}
	b, err := good.append(nil, master)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Add(b[:len(b)-8], true)
	f.Fuzz(func(t *testing.T, b []byte, sum bool) {
		if sum {
			s := base.Checksum(b, 0)
			for i := range 8 {
				b = append(b, byte(s>>(8*i)))
			}
		}
		file, sealed, data, err := decodeKeyFile(b)
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		aead, err := file.wrapping(master)
		must(t, err)
		plain, err := aead.Open(nil, make([]byte, 12), sealed, data)
		if err != nil {
			plain = make([]byte, keySize*len(file.keys))
			copy(plain, sealed)
			if err := file.decodeKeys(plain); err != nil && !errors.Is(err, base.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		must(t, file.decodeKeys(plain))
		again, err := file.append(nil, master)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x encodes to %x, %v", b, again, err)
		}
	})
}
