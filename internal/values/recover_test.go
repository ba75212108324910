package values

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/vfs"
)

// TestSyncedValuesSurviveACrash crashes a file between and after syncs, in
// every way that the disk in memory knows, and demands what was synced.
func TestSyncedValuesSurviveACrash(t *testing.T) {
	t.Parallel()
	seeds := uint64(64)
	if testing.Short() {
		seeds = 16
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 2))
		mem := vfs.NewMem()
		f := mustCreate(t, mem, "w")
		opts := WriterOptions{Num: testNum, Salt: testSalt, Compress: seed%2 == 0}
		w, err := NewWriter(f, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Sync(), mem.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		values := randomValues(rng, 40)
		if seed%3 == 0 {
			values = append(values, largeValues(rng)...)
			rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		}
		synced := 0
		for i := range values {
			s := &values[i]
			if s.p, err = w.Append(s.key, s.seq, s.value); err != nil {
				t.Fatal(err)
			}
			switch rng.IntN(12) {
			case 0:
				err, synced = w.Sync(), i+1
			case 1:
				err = w.Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		kind := vfs.CrashKind(seed) % (vfs.CrashShortTail + 1)
		mustRecover(t, mem.Crash(kind, rng), values, synced, opts)
	}
}

func mustRecover(t *testing.T, mem *vfs.Mem, values []stored, synced int, opts WriterOptions) {
	t.Helper()
	f, err := mem.OpenReadWrite("w", vfs.CatValue)
	if err != nil {
		t.Fatal(err)
	}
	last := values[len(values)-1].p
	w, err := Recover(f, last.Offset+last.Length, opts)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for kept < len(values) && values[kept].p.Offset+values[kept].p.Length <= w.Size() {
		kept++
	}
	if kept < synced {
		t.Fatalf("%d values were synced, %d are there", synced, kept)
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if props.Values != uint64(kept) {
		t.Fatalf("%d values, %d were kept", props.Values, kept)
	}
	r := mustOpen(t, mustRead(t, f, props.Size), opts.Salt)
	mustHave(t, r, values[:kept])
	if err := r.Verify(); err != nil {
		t.Fatal(err)
	}
}

func TestRecoveryCutsWhatTheLogDoesNotReferTo(t *testing.T) {
	t.Parallel()
	f := mustCreate(t, vfs.NewMem(), "w")
	opts := WriterOptions{Num: testNum, Salt: testSalt}
	w, err := NewWriter(f, opts)
	if err != nil {
		t.Fatal(err)
	}
	values := randomValues(rand.New(rand.NewPCG(2, 2)), 10)
	for i := range values {
		if values[i].p, err = w.Append(values[i].key, values[i].seq, values[i].value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	if w, err = Recover(f, values[6].p.Offset, opts); err != nil {
		t.Fatal(err)
	}
	if props, err := w.Finish(); err != nil || props.Values != 6 || w.Size() != props.Size {
		t.Fatalf("%+v, %v", props, err)
	}
	if _, err := Recover(f, 1000, WriterOptions{Num: testNum, Salt: testSalt + 1}); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a file with another salt: %v", err)
	}
}

func TestAStreamThatACrashCutsShortIsNoRecord(t *testing.T) {
	t.Parallel()
	f := mustCreate(t, vfs.NewMem(), "w")
	opts := WriterOptions{Num: testNum, Salt: testSalt}
	w, err := NewWriter(f, opts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(make([]byte, 5*chunkSize)); err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	if w, err = Recover(f, 1<<30, opts); err != nil || w.Size() != fileHeaderSize {
		t.Fatalf("recovered up to %d: %v", w.Size(), err)
	}
}

func TestATailReadsWhatWasFlushed(t *testing.T) {
	t.Parallel()
	f := mustCreate(t, vfs.NewMem(), "w")
	w, err := NewWriter(f, WriterOptions{Num: testNum, Salt: testSalt, Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	tail := NewTail(f, testNum, testSalt, "w")
	for _, s := range randomValues(rand.New(rand.NewPCG(8, 2)), 50) {
		p, err := w.Append(s.key, s.seq, s.value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tail.Get(p, s.key, s.seq); err == nil && len(s.value) < 1000 {
			t.Fatal("a value was read before it was flushed")
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got, err := tail.Get(p, s.key, s.seq); err != nil || !bytes.Equal(got, s.value) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if _, err := tail.Get(p, s.key, s.seq+1); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("another version was read: %v", err)
		}
	}
}
