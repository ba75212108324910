package values

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestGet_ReturnsAppendedValues(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		values := append(randomValues(rng, 300), largeValues(rng)...)
		data, props := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.ID(seed % 3)})
		r := mustOpen(t, data, testSalt)
		mustHave(t, r, values)
		if r.Gauge().Bytes() == 0 || r.Gauge().Bytes() > props.Size {
			t.Fatalf("%d bytes in memory of %d", r.Gauge().Bytes(), props.Size)
		}
		if err := r.DropPages(); err != nil || r.Gauge().Bytes() != 0 {
			t.Fatalf("after giving back, %d bytes are in memory (%v)", r.Gauge().Bytes(), err)
		}
		mustHave(t, r, values)
		if err := r.Verify(nil); err != nil {
			t.Fatal(err)
		}
		var sum, raw uint64
		for _, s := range values {
			sum += RefBytes(s.p)
			raw += uint64(len(s.value))
		}
		if props.Bytes != sum || props.ValueBytes != raw || props.Values != uint64(len(values)) || r.Properties() != props {
			t.Fatalf("properties %+v, pointers keep %d bytes alive of %d values of %d bytes", props, sum, len(values), raw)
		}
	}
}

func TestFirstKey_IsThatOfTheFirstRecord(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, firstRead - headerSize - 1, firstRead - headerSize, firstRead - headerSize + 1, base.MaxKeySize} {
		for _, size := range []int{0, firstRead, 2 * chunkSize} {
			values := []stored{
				{key: bytes.Repeat([]byte("b"), n), seq: 1, value: make([]byte, size)},
				{key: []byte("a"), seq: 2, value: make([]byte, 500)},
			}
			data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
			r := mustOpen(t, data, testSalt)
			if key, err := r.FirstKey(); err != nil || !bytes.Equal(key, values[0].key) {
				t.Errorf("of a key of %d bytes and a value of %d: %.20q, %v", n, size, key, err)
			}
			values[0], values[1] = values[1], values[0]
			data, _, err := rewrite(t, r, liveOf(values), testSalt+1)
			if err != nil {
				t.Fatal(err)
			}
			if key, err := mustOpen(t, data, testSalt+1).FirstKey(); err != nil || string(key) != "a" {
				t.Errorf("of a file that was rewritten: %.20q, %v", key, err)
			}
		}
	}
	data, _ := mustWrite(t, nil, WriterOptions{Num: testNum, Salt: testSalt})
	if key, err := mustOpen(t, data, testSalt).FirstKey(); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("of a file without records: %q, %v", key, err)
	}
}

func TestCompression_ShrinksTheFile(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("a value that repeats itself; "), 40)
	for _, how := range []codec.ID{codec.S2, codec.Zstd} {
		opts := WriterOptions{Num: testNum, Salt: testSalt, Compression: how}
		_, props := mustWrite(t, []stored{{key: []byte("k"), seq: 1, value: text}}, opts)
		if props.Bytes > uint64(len(text))/2 || props.ValueBytes != uint64(len(text)) {
			t.Fatalf("codec %d: %d bytes take %d", how, len(text), props.Bytes)
		}
	}
}

func TestCompression_ReadingAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	values := make([]stored, AheadSize)
	for i := range values {
		values[i] = stored{key: fmt.Appendf(nil, "key-%d", i), seq: 1, value: bytes.Repeat(noise.Bytes(rng, 600), 3)}
	}
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.S2})
	r := mustOpen(t, data, testSalt)
	mustHave(t, r, values)
	var arena codec.Arena
	var a Ahead
	got := testing.AllocsPerRun(100, func() {
		defer arena.Reset()
		a.Begin()
		for _, s := range values[:10] {
			if _, err := r.Get(s.p, s.key, s.seq, &arena); err != nil {
				t.Fatal(err)
			}
			a.Add(r, &s.p, s.key, s.seq)
		}
		a.Load(AheadSize)
		for i := range values[:10] {
			if _, ok := a.Get(i, &arena); !ok {
				t.Fatal("a value that was verified is not found")
			}
		}
	})
	if got != 0 && !invariant.Enabled { // invariant checks allocate
		t.Errorf("reads allocate %v times", got)
	}
}

func TestGet_PointerToAnotherRecordIsAnError(t *testing.T) {
	t.Parallel()
	values := randomValues(rand.New(rand.NewPCG(3, 1)), 20)
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	mustHave(t, r, values) // everything is verified, so checksums cannot help
	for i, s := range values {
		other := values[(i+1)%len(values)]
		off, length, value := s.p, s.p, s.p
		off.Offset += 8
		length.units++
		value.ValueLen++
		for _, c := range []struct {
			what string
			p    Pointer
			key  []byte
			seq  base.SeqNum
		}{
			{"key", s.p, other.key, s.seq}, {"version", s.p, s.key, s.seq + 1}, {"record", other.p, s.key, s.seq},
			{"offset", off, s.key, s.seq}, {"length", length, s.key, s.seq}, {"length of the value", value, s.key, s.seq},
			{"end", NewPointer(0, 1<<34, 64, 0), s.key, s.seq},
			{"header", NewPointer(0, 0, 64, 0), s.key, s.seq},
		} {
			if _, err := r.Get(c.p, c.key, c.seq, nil); err == nil {
				t.Fatalf("value %d with a wrong %s was read", i, c.what)
			} else {
				mustBeCorrupt(t, err)
			}
			if _, err := r.NewValueReader(c.p, c.key, c.seq); err == nil {
				t.Fatalf("value %d with a wrong %s was read in parts", i, c.what)
			}
		}
	}
}

func TestStream_SameAsAppend(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 1))
	values := append(largeValues(rng), stored{key: []byte("empty"), seq: 3, value: []byte{}})
	want, wantProps := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})

	f := mustCreate(t, memfs.NewVolatile(), "w")
	w, err := NewWriter(f, WriterOptions{Num: testNum, Salt: testSalt})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		mustAbort(t, w, v.value)
		s, err := w.Stream(v.key)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_, err = s.ReadFrom(iotest.HalfReader(bytes.NewReader(v.value)))
		} else {
			_, err = s.Write(v.value)
		}
		if err != nil {
			t.Fatal(err)
		}
		if p, err := s.Finish(v.seq); err != nil || p != v.p {
			t.Fatalf("%+v, %v, want %+v", p, err, v.p)
		}
	}
	mustAbort(t, w, values[len(values)-3].value)
	if props, err := w.Finish(); err != nil || props != wantProps {
		t.Fatalf("%+v, %v, want %+v", props, err, wantProps)
	}
	if !bytes.Equal(mustRead(t, f, wantProps.Size), want) {
		t.Fatal("the files differ")
	}
}

// mustAbort begins a stream with value and aborts it.
func mustAbort(t *testing.T, w *Writer, value []byte) {
	t.Helper()
	s, err := w.Stream([]byte("aborted"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadFrom(io.MultiReader(bytes.NewReader(value), iotest.ErrReader(io.ErrUnexpectedEOF))); err != io.ErrUnexpectedEOF {
		t.Fatalf("a reader that fails: %v", err)
	}
	if _, err := s.Finish(1); err != io.ErrUnexpectedEOF {
		t.Fatalf("a value that failed was finished: %v", err)
	}
}

func TestValueReader_ReadsInParts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(10, 1))
	values := append(largeValues(rng), randomValues(rng, 20)...)
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.S2})
	r := mustOpen(t, data, testSalt)
	for _, s := range values {
		v, err := r.NewValueReader(s.p, s.key, s.seq)
		if err != nil {
			t.Fatal(err)
		}
		if v.Size() != int64(len(s.value)) {
			t.Fatalf("size %d, want %d", v.Size(), len(s.value))
		}
		if err := iotest.TestReader(io.MultiReader(v), s.value); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			at := rng.IntN(len(s.value) + 1)
			if _, err := v.Seek(int64(at)-v.Size(), io.SeekEnd); err != nil {
				t.Fatal(err)
			}
			part := make([]byte, min(rng.IntN(3*chunkSize), len(s.value)-at))
			if _, err := io.ReadFull(v, part); err != nil || !bytes.Equal(part, s.value[at:at+len(part)]) {
				t.Fatalf("%d bytes at %d: %v", len(part), at, err)
			}
		}
	}
}

// TestValues_RecordsLieBeyond4GiB puts records at offsets above 32 bits, behind a hole that the
// disk in memory does not store.
func TestValues_RecordsLieBeyond4GiB(t *testing.T) {
	t.Parallel()
	f := mustCreate(t, memfs.NewVolatile(), "w")
	w, err := NewWriter(f, WriterOptions{Num: testNum, Salt: testSalt})
	if err != nil {
		t.Fatal(err)
	}
	w.out.flush()
	const hole = 9 << 30
	w.out.off = hole
	values := largeValues(rand.New(rand.NewPCG(4, 1)))
	for i := range values {
		s := &values[i]
		if s.p, err = w.Append(s.key, s.seq, s.value); err != nil {
			t.Fatal(err)
		}
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(f, props.Size, testNum, testSalt, "w")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range values {
		p, err := DecodePointer(s.p.AppendTo(nil))
		if err != nil || p != s.p || p.Offset < hole {
			t.Fatalf("%+v became %+v, %v", s.p, p, err)
		}
		v, err := r.NewValueReader(p, s.key, s.seq)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(v); err != nil || !bytes.Equal(got, s.value) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	w.out.off = offsetMax + unit
	if _, err := w.Append([]byte("k"), 1, nil); err != ErrTooLarge {
		t.Fatalf("a record was appended at %d: %v", w.out.pos(), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLimits_TooLargeValueIsRefused(t *testing.T) {
	t.Parallel()
	w, err := NewWriter(mustCreate(t, memfs.NewVolatile(), "w"), WriterOptions{Num: testNum})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Stream([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	s.n = base.MaxValueSize - 10 // as if that many bytes were written
	if _, err := s.Write(make([]byte, 11)); err != ErrTooLarge {
		t.Fatalf("more than the largest value: %v", err)
	}
	if _, err := s.Finish(1); err != ErrTooLarge {
		t.Fatalf("it was finished: %v", err)
	}
	if _, err := NewWriter(nil, WriterOptions{Num: 1 << 32}); err == nil {
		t.Fatal("a number that pointers cannot hold")
	}
}

func TestFaults_FailedWriteFailsTheFile(t *testing.T) {
	t.Parallel()
	values := append(randomValues(rand.New(rand.NewPCG(5, 1)), 50), largeValues(rand.New(rand.NewPCG(5, 2)))...)
	for n := int64(1); ; n += int64(dose.Short(5, 1)) {
		faults := faultfs.New(memfs.New())
		rule := faults.Add(faultfs.Rule{Category: vfs.CatValue, Nth: n, Err: vfs.ErrNoSpace})
		err := writeAndRead(faults, values)
		if rule.Fired() == 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		// A failed read of much is repeated for the record alone.
		if _, op := faults.Failed(); err == nil && op.Kind != vfs.OpPopulate {
			t.Fatalf("call %d failed without an error", n)
		}
	}
}

func writeAndRead(fs vfs.FS, values []stored) error {
	f, err := fs.Create("w", vfs.CatValue)
	if err != nil {
		return err
	}
	w, err := NewWriter(f, WriterOptions{Num: testNum, Salt: testSalt})
	if err != nil {
		return err
	}
	pointers := make([]Pointer, len(values))
	for i, s := range values {
		if pointers[i], err = w.Append(s.key, s.seq, s.value); err != nil {
			return err
		}
	}
	props, err := w.Finish()
	if err != nil {
		return err
	}
	r, err := Open(f, props.Size, testNum, testSalt, "w")
	if err != nil {
		return err
	}
	for i, s := range values {
		got, err := r.Get(pointers[i], s.key, s.seq, nil)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, s.value) {
			return fmt.Errorf("value %d differs", i)
		}
	}
	if err := r.Verify(nil); err != nil {
		return err
	}
	return r.Close()
}

// A file may hold a single value of gigabytes.
func TestVerify_StopWithinALongValue(t *testing.T) {
	t.Parallel()
	long := []stored{{key: []byte("key"), seq: 1, value: make([]byte, 40*chunkSize)}}
	data, _ := mustWrite(t, long, WriterOptions{Num: testNum, Salt: testSalt})
	r := mustOpen(t, data, testSalt)
	stopped, asked := errors.New("stopped"), 0
	err := r.Verify(func() error {
		if asked++; asked > 10 {
			return stopped
		}
		return nil
	})
	if !errors.Is(err, stopped) || asked != 11 {
		t.Errorf("asked %d times, then %v", asked, err)
	}
}

func TestPointer_FitsIntoRegisters(t *testing.T) {
	t.Parallel()
	if p := reflect.TypeFor[Pointer](); p.NumField() > 4 || p.Size() > 32 {
		t.Errorf("a Pointer has %d fields and %d bytes, want at most 4 and 32", p.NumField(), p.Size())
	}
}
