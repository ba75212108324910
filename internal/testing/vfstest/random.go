package vfstest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
)

// testRandomOperations changes several files at random and compares each with a slice of
// bytes.
func testRandomOperations(t *testing.T, fs vfs.FS, dir string) {
	seed := rand.Uint64()
	rng := Rand(seed)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	type pair struct {
		file vfs.File
		want []byte
	}
	var files []*pair
	for i := range 3 {
		files = append(files, &pair{file: Create(t, fs, fs.Join(dir, fmt.Sprint(i)), "")})
	}
	for step := range 400 {
		p := files[rng.IntN(len(files))]
		off := rng.Int64N(600_000)
		if rng.IntN(2) == 0 {
			off = rng.Int64N(10_000)
		}
		switch rng.IntN(11) {
		case 0:
			Must(t, p.file.Truncate(off))
			p.want = Resized(p.want, off)
		case 1:
			n := rng.Int64N(20_000)
			_, err := p.file.Preallocate(off, n)
			Must(t, err)
			p.want = Resized(p.want, max(int64(len(p.want)), off+n))
		case 2:
			Must(t, p.file.SyncData())
		case 3:
			n := rng.Int64N(int64(len(p.want)) + 1)
			m, err := p.file.Map(n)
			Must(t, err)
			if string(m.Bytes()) != string(p.want[:n]) {
				t.Fatalf("step %d: mapping of %d bytes differs", step, n)
			}
			Must(t, m.Close())
		case 4:
			p.file.WillWrite(off, rng.Int64N(300_000))
		default:
			b := noise.Bytes(rng, rng.IntN(9_000)) // half of them are small
			_, err := p.file.WriteAt(b, off)
			Must(t, err)
			if len(b) > 0 {
				p.want = Resized(p.want, max(int64(len(p.want)), off+int64(len(b))))
				copy(p.want[off:], b)
			}
		}
		from := rng.Int64N(int64(len(p.want)) + 1)
		got := make([]byte, rng.IntN(50_000))
		n, err := p.file.ReadAt(got, from)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if want := p.want[from:min(int64(len(p.want)), from+int64(len(got)))]; string(got[:n]) != string(want) {
			t.Fatalf("step %d: %d bytes at %d differ from the %d expected", step, n, from, len(want))
		}
	}
	for _, p := range files {
		WantContents(t, Contents(t, p.file), string(p.want))
		Close(t, p.file)
	}
}
