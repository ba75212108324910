package vfs

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/noise"
)

func testRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// testRandomOperations changes a few files at random and compares each with
// a plain slice of bytes.
func testRandomOperations(t *testing.T, fs FS, dir string) {
	seed := rand.Uint64()
	rng := testRand(seed)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	type pair struct {
		file File
		want []byte
	}
	var files []*pair
	for i := range 3 {
		files = append(files, &pair{file: create(t, fs, fs.Join(dir, fmt.Sprint(i)), "")})
	}
	for step := range 400 {
		p := files[rng.IntN(len(files))]
		off := rng.Int64N(600_000)
		if rng.IntN(2) == 0 {
			off = rng.Int64N(10_000)
		}
		switch rng.IntN(10) {
		case 0:
			must(t, p.file.Truncate(off))
			p.want = resized(p.want, off)
		case 1:
			n := rng.Int64N(20_000)
			_, err := p.file.Preallocate(off, n)
			must(t, err)
			p.want = resized(p.want, max(int64(len(p.want)), off+n))
		case 2:
			must(t, p.file.SyncData())
		case 3:
			n := rng.Int64N(int64(len(p.want)) + 1)
			m, err := p.file.Map(n)
			must(t, err)
			if string(m.Bytes()) != string(p.want[:n]) {
				t.Fatalf("step %d: mapping of %d bytes differs", step, n)
			}
			must(t, m.Close())
		default:
			b := noise.Bytes(rng, rng.IntN(9_000))
			_, err := p.file.WriteAt(b, off)
			must(t, err)
			if len(b) > 0 {
				p.want = resized(p.want, max(int64(len(p.want)), off+int64(len(b))))
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
		wantContents(t, contents(t, p.file), string(p.want))
		closeFile(t, p.file)
	}
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}
