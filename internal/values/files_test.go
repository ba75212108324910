package values

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	testNum  = 7
	testSalt = 0x5a17
)

// A stored is an appended value with its pointer.
type stored struct {
	p     Pointer
	key   []byte
	seq   base.SeqNum
	value []byte
}

func mustCreate(t testing.TB, fs vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fs.Create(name, vfs.CatValue)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mustWrite writes a file with the given values. It returns the file's bytes and fills in
// the pointers.
func mustWrite(t testing.TB, values []stored, opts WriterOptions) ([]byte, Properties) {
	t.Helper()
	f := mustCreate(t, memfs.NewVolatile(), "w")
	w, err := NewWriter(f, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range values {
		if values[i].p, err = w.Append(values[i].key, values[i].seq, values[i].value); err != nil {
			t.Fatal(err)
		}
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return mustRead(t, f, props.Size), props
}

func mustRead(t testing.TB, f vfs.File, want int64) []byte {
	t.Helper()
	if size, err := f.Size(); err != nil || size != want {
		t.Fatalf("the file has %d bytes (%v), want %d", size, err, want)
	}
	data := make([]byte, want)
	if err := readFull(f, data, 0); err != nil {
		t.Fatal(err)
	}
	return data
}

func openBytes(t testing.TB, data []byte, salt uint64) (*Reader, error) {
	t.Helper()
	f := mustCreate(t, memfs.NewVolatile(), "r")
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return Open(f, int64(len(data)), testNum, salt, "r")
}

func mustOpen(t testing.TB, data []byte, salt uint64) *Reader {
	t.Helper()
	r, err := openBytes(t, data, salt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func mustHave(t testing.TB, r *Reader, values []stored) {
	t.Helper()
	for _, s := range values {
		got, err := r.Get(s.p, s.key, s.seq, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, s.value) {
			t.Fatalf("%d bytes at %+v, want %d", len(got), s.p, len(s.value))
		}
	}
}

func mustBeCorrupt(t testing.TB, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("%v is not ErrCorrupt", err)
	}
}

// randomValues returns values of many lengths. About half are compressible.
func randomValues(rng *rand.Rand, count int) []stored {
	sizes := []int{0, 1, 7, 8, 100, 255, 256, 1000, 4096, 70_000}
	out := make([]stored, count)
	for i := range out {
		n := sizes[rng.IntN(len(sizes))]
		value := noise.Bytes(rng, n)
		if rng.IntN(2) == 0 {
			value = bytes.Repeat([]byte("json"), n/4)
		}
		out[i] = stored{key: fmt.Appendf(nil, "key-%06d%s", i, make([]byte, rng.IntN(20))), seq: base.SeqNum(rng.IntN(1000) + 1), value: value}
	}
	return out
}

// largeValues cross the bounds of chunks and of buffers.
func largeValues(rng *rand.Rand) []stored {
	var out []stored
	for i, n := range []int{chunkSize - 1, chunkSize, chunkSize + 1, 2 * chunkSize, windowSize - 100, windowSize, 3*windowSize + 5} {
		out = append(out, stored{key: fmt.Appendf(nil, "large-%d", i), seq: base.SeqNum(i + 1), value: noise.Bytes(rng, n)},
			stored{key: fmt.Appendf(nil, "small-%d", i), seq: base.SeqNum(i + 1), value: []byte("small")})
	}
	return out
}
