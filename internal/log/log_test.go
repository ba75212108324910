package log

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const testDir = "/db"

// testOptions returns options with small segments and frames. Background jobs
// run at once in the caller's goroutine.
func testOptions(fs vfs.FS, seed uint64) Options {
	rng := rand.New(rand.NewPCG(seed, 1))
	return Options{
		FS: fs, Dir: testDir, Random: rng.Uint64,
		SegmentSizeMin: segmentSizeLeast, SegmentSizeMax: 8 * sizeUnit, FrameSizeMax: 200,
		Go: func(job func()) { job() },
	}
}

// newTestDisk returns a disk with a database directory.
func newTestDisk(t testing.TB) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	if err := fs.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	return fs
}

// testPayload returns the payload of transaction i: its number, and bytes that
// depend on it. Many payloads need several frames.
func testPayload(i int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	n := rng.IntN(300)
	if rng.IntN(16) == 0 {
		n = rng.IntN(3000)
	}
	p := make([]byte, 8+n)
	binary.LittleEndian.PutUint64(p, uint64(i))
	noise.Fill(rng, p[8:])
	return p
}

// collect returns an apply function that checks that transactions come in order,
// from *next on, and counts them.
func collect(next *int) func([]byte) error {
	return func(p []byte) error {
		if want := testPayload(*next); !bytes.Equal(p, want) {
			return fmt.Errorf("transaction %d has %d bytes, %x..., want %d bytes, %x...",
				*next, len(p), p[:min(8, len(p))], len(want), want[:8])
		}
		*next++
		return nil
	}
}

func appendTx(w *Writer, p []byte) error {
	if err := w.Reserve(int64(len(p))); err != nil {
		return err
	}
	w.Begin()
	w.Write(p)
	w.End()
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open recovers and starts a new span. It returns the spans for the manifest.
func open(o Options, spans []base.LogSpan, apply func([]byte) error) (*Writer, []base.LogSpan, error) {
	r, err := recoverAll(o, spans, apply)
	if err != nil {
		return nil, nil, err
	}
	w, err := Create(o, r)
	if err != nil {
		return nil, nil, err
	}
	return w, append(r.Spans[:len(r.Spans):len(r.Spans)], base.LogSpan{First: w.First()}), nil
}

func TestRecover_ReplaysInOrderOverManyOpenings(t *testing.T) {
	t.Parallel()
	o := testOptions(newTestDisk(t), 1)
	var spans []base.LogSpan
	written := 0
	for range 20 {
		next := 0
		w, s, err := open(o, spans, collect(&next))
		must(t, err)
		if next != written {
			t.Fatalf("replayed %d transactions, want %d", next, written)
		}
		spans = s
		for range 100 {
			must(t, appendTx(w, testPayload(written)))
			written++
			if written%7 == 0 {
				must(t, w.Flush())
			}
			if written%21 == 0 {
				must(t, w.Sync())
			}
		}
		if w.Stats().Rotations == 0 {
			t.Fatal("the test is to rotate")
		}
		must(t, w.Close())
	}
}
