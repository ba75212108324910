package values

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func liveOf(values []stored) iter.Seq2[Live, error] {
	return func(yield func(Live, error) bool) {
		for _, s := range values {
			if !yield(Live{Pointer: s.p, Key: s.key, Seq: s.seq}, nil) {
				return
			}
		}
	}
}

func rewrite(t testing.TB, r *Reader, live iter.Seq2[Live, error], salt uint64) ([]byte, Properties, error) {
	t.Helper()
	f := mustCreate(t, memfs.NewVolatile(), "w")
	props, err := Rewrite(RewriteJob{Source: r, Out: f, Salt: salt, Live: live})
	if err != nil {
		return nil, props, err
	}
	return mustRead(t, f, props.Size), props, nil
}

func TestRewrite_KeepsLiveValuesUnderTheirPointers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(dose.Short(3, 6)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		live := randomValues(rng, 400)
		if seed%2 == 0 {
			live = append(live, largeValues(rng)...)
		}
		data, _ := mustWrite(t, live, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.ID(seed % 3)})
		r := mustOpen(t, data, testSalt)
		for salt := uint64(1); len(live) > 3; salt++ {
			rng.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
			dead := live[:len(live)/3]
			live = live[len(dead):]
			twice := append(live[:len(live):len(live)], live[:2]...)
			data, props, err := rewrite(t, r, liveOf(twice), salt)
			if err != nil {
				t.Fatal(err)
			}
			r = mustOpen(t, data, salt)
			mustHave(t, r, live)
			mustBeDead(t, r, dead)
			mustLieInOrder(t, r, live)
			mustStream(t, r, live[0])
			if err := r.Verify(nil); err != nil {
				t.Fatal(err)
			}
			sum := uint64(0)
			for _, s := range live {
				sum += RefBytes(s.p)
			}
			if props.Bytes != sum || props.Values != uint64(len(live)) {
				t.Fatalf("%+v, want %d bytes of %d values", props, sum, len(live))
			}
			if over := props.Size - int64(sum); over > int64(16*len(live)+200) {
				t.Fatalf("%d bytes beside the values", over)
			}
		}
	}
}

func mustBeDead(t *testing.T, r *Reader, dead []stored) {
	t.Helper()
	for _, s := range dead {
		if _, err := r.Get(s.p, s.key, s.seq, nil); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("a pointer to what was collected: %v", err)
		}
	}
}

func mustLieInOrder(t *testing.T, r *Reader, live []stored) {
	t.Helper()
	last := int64(0)
	for _, s := range live {
		at, err := r.v.Load().place(s.p)
		if err != nil || at <= last {
			t.Fatalf("at %d after %d: %v", at, last, err)
		}
		last = at
	}
}

func mustStream(t *testing.T, r *Reader, s stored) {
	t.Helper()
	v, err := r.NewValueReader(s.p, s.key, s.seq)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(v); err != nil || !bytes.Equal(got, s.value) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestRewrite_StopsAtErrors(t *testing.T) {
	t.Parallel()
	values := randomValues(rand.New(rand.NewPCG(4, 3)), 600)
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	wrong := values[5]
	wrong.seq++
	if _, _, err := rewrite(t, r, liveOf([]stored{values[1], wrong}), 1); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a pointer to another version: %v", err)
	}
	if _, _, err := rewrite(t, r, liveOf(nil), 1); !errors.Is(err, ErrNothingLive) {
		t.Fatalf("nothing live: %v", err)
	}
	stop := errors.New("stop")
	f := mustCreate(t, memfs.NewVolatile(), "w")
	job := RewriteJob{Source: r, Out: f, Salt: 1, Live: liveOf(values), Stop: func() error { return stop }}
	if _, err := Rewrite(job); !errors.Is(err, stop) {
		t.Fatalf("asked to stop: %v", err)
	}
	list := errors.New("list")
	job.Live = func(yield func(Live, error) bool) { yield(Live{}, list) }
	if _, err := Rewrite(job); !errors.Is(err, list) {
		t.Fatalf("a list that failed: %v", err)
	}
	damaged := bytes.Clone(data)
	damaged[values[9].p.Offset+headerSize+2] ^= 1
	if _, _, err := rewrite(t, mustOpen(t, damaged, testSalt), liveOf(values), 1); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a damaged record was copied: %v", err)
	}
}
