package values

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestCopy_KeepsRecordsAndTakesTheVersion(t *testing.T) {
	t.Parallel()
	const ahead = 32 << 10
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 9))
		vals := append(randomValues(rng, 200), largeValues(rng)...)
		named := seed%2 == 0
		for i := range vals {
			if named {
				vals[i].seq = 0 // version unknown when the value was written
			}
		}
		data, props := mustWrite(t, vals, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.S2})
		c, err := NewCopier(mustOpen(t, data, testSalt), ahead)
		if err != nil {
			t.Fatal(err)
		}
		out := mustCreate(t, memfs.NewVolatile(), "w")
		w, err := NewWriter(out, WriterOptions{Num: testNum, Salt: testSalt + 1})
		if err != nil {
			t.Fatal(err)
		}
		if seed >= 2 {
			rng.Shuffle(len(vals), func(i, j int) { vals[i], vals[j] = vals[j], vals[i] })
		}
		for i := range vals {
			v := &vals[i]
			if named {
				v.seq = base.SeqNum(i + 1)
			}
			if v.p, err = c.Copy(w, Live{Pointer: v.p, Key: v.key, Seq: v.seq}); err != nil {
				t.Fatal(err)
			}
			if n := cap(c.in.buf); n > ahead {
				t.Fatalf("%d bytes are kept behind a value of %d", n, len(v.value))
			}
		}
		copied, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if copied.Bytes != props.Bytes || copied.ValueBytes != props.ValueBytes {
			t.Errorf("%+v were copied of %+v", copied, props)
		}
		mustHave(t, mustOpen(t, mustRead(t, out, copied.Size), testSalt+1), vals)
	}
}

// copyOf copies values out of a possibly damaged file. It returns the copy and the
// copied values. All other values must be reported as damaged.
func copyOf(t *testing.T, data []byte, vals []stored) (out []byte, copied []stored) {
	t.Helper()
	r, err := openBytes(t, data, testSalt)
	if err != nil {
		mustBeCorrupt(t, err)
		return nil, nil
	}
	defer func() { _ = r.Close() }() // all results have been read
	c, err := NewCopier(r, 4<<10)
	if err != nil {
		mustBeCorrupt(t, err)
		return nil, nil
	}
	f := mustCreate(t, memfs.NewVolatile(), "w")
	w, err := NewWriter(f, WriterOptions{Num: testNum, Salt: testSalt + 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vals {
		v.p, err = c.Copy(w, Live{Pointer: v.p, Key: v.key, Seq: v.seq})
		if mustBeCorrupt(t, err); err == nil {
			copied = append(copied, v)
		}
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return mustRead(t, f, props.Size), copied
}

// mustCopyNothingWrong copies and rewrites damaged data.
func mustCopyNothingWrong(t *testing.T, damaged []byte, vals []stored) {
	t.Helper()
	if out, copied := copyOf(t, damaged, vals); out != nil {
		mustHave(t, mustOpen(t, out, testSalt+1), copied)
	}
	r, err := openBytes(t, damaged, testSalt)
	if mustBeCorrupt(t, err); err != nil {
		return
	}
	defer func() { _ = r.Close() }() // all results have been read
	out, _, err := rewrite(t, r, liveOf(vals), testSalt+1)
	if mustBeCorrupt(t, err); err == nil {
		mustHave(t, mustOpen(t, out, testSalt+1), vals)
	}
}

// A copy gets a new checksum, which would make a damaged value look good for ever.
func TestCopy_NeverCopiesDamage(t *testing.T) {
	t.Parallel()
	for _, remapped := range []bool{false, true} {
		data, vals := smallFile(t, remapped)
		if _, copied := copyOf(t, data, vals); len(copied) != len(vals) {
			t.Fatalf("%d of %d values are copied before any damage", len(copied), len(vals))
		}
		for i := 0; i < len(data); i += step() {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1
			mustCopyNothingWrong(t, damaged, vals)
		}
	}
}

func TestCopy_NeverCopiesDamageOfALongValue(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 9))
	for _, size := range []int{2*chunkSize + 9, windowSize + chunkSize} {
		vals := []stored{{key: []byte("long"), seq: 7, value: noise.Bytes(rng, size)}}
		data, _ := mustWrite(t, vals, WriterOptions{Num: testNum, Salt: testSalt})
		for range 20 {
			damaged := bytes.Clone(data)
			damaged[int(vals[0].p.Offset)+headerSize+rng.IntN(size)] ^= 1
			if _, copied := copyOf(t, damaged, vals); len(copied) > 0 {
				t.Fatalf("a value of %d bytes is copied although one is wrong", size)
			}
			mustCopyNothingWrong(t, damaged, vals)
		}
	}
}

func TestCopy_StopWithinALongValue(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 9))
	enough := errors.New("enough")
	for _, size := range []int{8 << 20, 32 << 10} {
		var vals []stored
		for i := range 8 << 20 / size {
			vals = append(vals, stored{key: fmt.Append(nil, i), seq: 7, value: noise.Bytes(rng, size)})
		}
		data, _ := mustWrite(t, vals, WriterOptions{Num: testNum, Salt: testSalt})
		asked := 0
		_, err := Rewrite(RewriteJob{
			Source: mustOpen(t, data, testSalt), Out: mustCreate(t, memfs.NewVolatile(), "w"), Salt: 1, Live: liveOf(vals),
			Stop: func() error {
				if asked++; asked == 3 {
					return enough
				}
				return nil
			},
		})
		if !errors.Is(err, enough) || asked != 3 {
			t.Errorf("values of %d bytes: asked %d times, then %v", size, asked, err)
		}
	}
}
