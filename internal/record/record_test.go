package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/noise"
)

const testSalt = 0x5a17_0123_4567_89ab

// A testFile is a file of records, with the durable mark at each point.
type testFile struct {
	bytes   []byte
	records [][]byte
	ends    []int64 // of the records
	durable int64   // the largest durable mark in it
}

// newTestFile builds a file of n random records, with room behind them. The
// durable mark follows with a random lag.
func newTestFile(rng *rand.Rand, n, payloadMax int) testFile {
	b := NewBuilder(testSalt, payloadMax, nil)
	var f testFile
	durable := int64(Start)
	for range n {
		p := noise.Bytes(rng, rng.IntN(3*payloadMax))
		f.durable = durable
		b.Record(p, durable)
		f.records = append(f.records, p)
		f.ends = append(f.ends, b.Offset())
		if rng.IntN(3) == 0 {
			durable = b.Offset()
		}
	}
	frames, offset := b.Sealed()
	if offset != Start {
		panic("frames do not begin at Start")
	}
	f.bytes = AppendHeader(nil, Header{Type: TypeLog, Number: 1, File: 1, Salt: testSalt})
	f.bytes = append(f.bytes, frames...)
	f.bytes = append(f.bytes, make([]byte, 300)...)
	return f
}

// readAll returns the records of a file.
func readAll(file []byte) (records [][]byte, r *Reader, err error) {
	r = NewReader(bytes.NewReader(file), int64(len(file)), testSalt, nil)
	for {
		rec, err := r.NextRecord()
		if err == io.EOF {
			return records, r, nil
		}
		if err != nil {
			return records, r, err
		}
		if rec.Kind == Whole {
			records = append(records, bytes.Clone(rec.Payload))
		}
	}
}

// samePrefix reports whether got is a prefix of want.
func samePrefix(got, want [][]byte) bool {
	if len(got) > len(want) {
		return false
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			return false
		}
	}
	return true
}

// checkDamaged checks what a reader makes of a damaged file. Bytes below changed
// are intact; later ones may differ.
func checkDamaged(f testFile, damaged []byte, changed int64) error {
	got, _, err := readAll(damaged)
	if err != nil {
		if !errors.Is(err, base.ErrCorrupt) {
			return fmt.Errorf("%w is not corruption", err)
		}
		return nil
	}
	if !samePrefix(got, f.records) {
		return errors.New("records that were never written")
	}
	for i := len(got); i < len(f.records); i++ {
		switch {
		case f.ends[i] <= changed:
			return fmt.Errorf("record %d before the damage is lost", i)
		case f.ends[i] <= f.durable:
			return fmt.Errorf("record %d was durable and is lost without an error", i)
		}
	}
	return nil
}

func TestRecord_AnySizeIsReadBack(t *testing.T) {
	t.Parallel()
	for _, payloadMax := range []int{1, 7, 8, 100, MaxPayload} {
		var b Builder = NewBuilder(testSalt, payloadMax, nil)
		var want [][]byte
		for n := range 40 {
			p := bytes.Repeat([]byte{byte(n + 1)}, n)
			want = append(want, p)
			before := b.Offset()
			b.Record(p, 0)
			if got := b.Offset() - before; got != Size(int64(n), payloadMax) {
				t.Fatalf("%d bytes in frames of %d take %d, Size says %d", n, payloadMax, got, Size(int64(n), payloadMax))
			}
		}
		frames, _ := b.Sealed()
		file := append(make([]byte, Start), frames...)
		got, r, err := readAll(file)
		if err != nil || len(got) != len(want) || !samePrefix(got, want) {
			t.Fatalf("frames of %d: %d of %d records: %v", payloadMax, len(got), len(want), err)
		}
		if r.Offset() != int64(len(file)) || r.Chain() != b.Chain() || r.Torn() != nil {
			t.Fatalf("end at %d with chain %#x and %v, want %d, %#x", r.Offset(), r.Chain(), r.Torn(), len(file), b.Chain())
		}
	}
}

func TestReader_ReadsLargeRecordsInBoundedPieces(t *testing.T) {
	t.Parallel()
	b := NewBuilder(testSalt, MaxPayload, nil)
	p := make([]byte, 3*MaxPayload+12345)
	for i := range p {
		p[i] = byte(i * 7 >> 3)
	}
	b.Record([]byte("before"), 0)
	b.Record(p, 0)
	b.Record([]byte("after"), 0)
	frames, _ := b.Sealed()
	got, r, err := readAll(append(make([]byte, Start), frames...))
	if err != nil || !samePrefix(got, [][]byte{[]byte("before"), p, []byte("after")}) || len(got) != 3 {
		t.Fatalf("%d records: %v", len(got), err)
	}
	if cap(r.window) > MaxPayload+FrameHeaderSize {
		t.Fatalf("the reader holds %d bytes of the file", cap(r.window))
	}
}

func TestDamage_ChangedDurableBytesAreReported(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newTestFile(rng, 12, 90)
		damaged := bytes.Clone(f.bytes)
		for at := Start; at < len(damaged); at++ {
			for bit := range 8 {
				damaged[at] ^= 1 << bit
				if err := checkDamaged(f, damaged, int64(at)); err != nil {
					t.Fatalf("seed %d, bit %d of byte %d: %v", seed, bit, at, err)
				}
				damaged[at] ^= 1 << bit
			}
		}
	}
}

func TestDamage_LostRepeatedOrExchangedDurableRangesAreReported(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		f := newTestFile(rng, 12, 90)
		damaged := bytes.Clone(f.bytes)
		size := len(damaged) - Start
		n := (1 + rng.IntN(size/2)) &^ (rng.IntN(2) * 7)
		n = max(n, 1)
		at, from := Start+rng.IntN(size-n), Start+rng.IntN(size-n)
		if rng.IntN(2) == 0 {
			at, from = at&^7, from&^7
		}
		first := at
		switch rng.IntN(4) {
		case 0:
			clear(damaged[at : at+n])
		case 1:
			copy(damaged[at:at+n], f.bytes[from:])
		case 2:
			damaged = append(damaged[:at], damaged[at+n:]...)
		case 3:
			copy(damaged[at:at+n], f.bytes[from:from+n])
			copy(damaged[from:from+n], f.bytes[at:at+n])
			first = min(at, from)
		}
		// Damage may also take the last mark away. Then no remaining frame calls
		// the damaged bytes durable.
		f.durable = intactMark(damaged)
		if err := checkDamaged(f, damaged, int64(first)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// intactMark returns the largest durable mark in a file.
func intactMark(file []byte) int64 {
	mark := int64(0)
	_, err := AnyFrame(bytes.NewReader(file), int64(len(file)), testSalt, nil, func(f Frame) bool {
		mark = max(mark, f.Durable)
		return false
	})
	if err != nil {
		panic(err)
	}
	return mark
}

func TestTornTail_EndsTheFileWhereverItIsTorn(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 3))
	f := newTestFile(rng, 12, 90)
	for cut := int(f.durable); cut < len(f.bytes); cut++ {
		torn := bytes.Clone(f.bytes)
		clear(torn[cut:])
		got, r, err := readAll(torn)
		if err != nil || !samePrefix(got, f.records) {
			t.Fatalf("cut at %d: %d records: %v", cut, len(got), err)
		}
		want := 0
		for want < len(f.ends) && int(f.ends[want]) <= cut {
			want++
		}
		// Up to alignment-1 of the cut bytes are padding, or are zeros anyway.
		if len(got) < want {
			t.Fatalf("cut at %d: %d records, want %d", cut, len(got), want)
		}
		if r.Torn() == nil {
			t.Fatalf("cut at %d: no word on what is torn", cut)
		}
	}
}

func TestFrame_OfAnotherSaltOrPlaceIsNotSeen(t *testing.T) {
	t.Parallel()
	f := newTestFile(rand.New(rand.NewPCG(1, 4)), 8, 90)
	size := int64(len(f.bytes))
	other := NewReader(bytes.NewReader(f.bytes), size, testSalt+1, nil)
	if _, err := other.Next(); err != io.EOF {
		t.Fatalf("with a salt that has the same tag: %v", err)
	}
	moved := append(make([]byte, Start+8), f.bytes[Start:]...)
	got, r, err := readAll(moved)
	if err != nil || len(got) != 0 || r.Claimed() != 0 {
		t.Fatalf("moved by 8 bytes: %d records, a frame claims %d: %v", len(got), r.Claimed(), err)
	}
}

func TestCorruption_TellsOffsetGotAndWant(t *testing.T) {
	t.Parallel()
	f := newTestFile(rand.New(rand.NewPCG(2, 5)), 12, 90)
	f.bytes[Start+FrameHeaderSize+1] ^= 4
	_, _, err := readAll(f.bytes)
	var c *base.CorruptionError
	if !errors.As(err, &c) || c.Offset != Start || c.Got == "" || c.Want == "" || c.Got == c.Want {
		t.Fatalf("%v", err)
	}
}

func TestFinish_MarksBeginInDifferentPages(t *testing.T) {
	t.Parallel()
	for extra := range 5000 {
		b := NewBuilder(testSalt, MaxPayload, nil)
		b.Record(make([]byte, extra), 0)
		end := b.Offset()
		b.Finish(Close, end)
		if got := b.Offset() - end; got > CloseRoom {
			t.Fatalf("a record of %d bytes: %d bytes at the end, want at most %d", extra, got, CloseRoom)
		}
		frames, _ := b.Sealed()
		r := NewReader(bytes.NewReader(append(make([]byte, Start), frames...)), b.Offset(), testSalt, nil)
		pages := map[int64]bool{}
		kind := Kind(0)
		for {
			f, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind != Whole {
				pages[f.Offset/pageSize] = true
			}
			kind = f.Kind
		}
		if len(pages) != FinishFrames || kind != Close {
			t.Fatalf("a record of %d bytes: marks in %d pages, the last frame is %s", extra, len(pages), kind)
		}
	}
}

func TestHeader_EitherCopyIsEnough(t *testing.T) {
	t.Parallel()
	want := Header{Type: TypeManifest, Number: 7, File: 8, Salt: 9, Size: 1 << 40}
	file := AppendHeader(nil, want)
	if len(file) != Start {
		t.Fatalf("header of %d bytes", len(file))
	}
	for at := range file {
		for bit := range 8 {
			file[at] ^= 1 << bit
			got, err := ReadHeaders(bytes.NewReader(file), Start, TypeManifest)
			if err != nil || len(got) != 1 || got[0] != want {
				t.Fatalf("bit %d of byte %d: %+v, %v", bit, at, got, err)
			}
			file[at] ^= 1 << bit
		}
	}
	clear(file[:headerSize])
	clear(file[pageSize : pageSize+headerSize])
	if got, err := ReadHeaders(bytes.NewReader(file), Start, TypeManifest); err != nil || len(got) != 0 {
		t.Fatalf("without both: %+v, %v", got, err)
	}
	if got, err := ReadHeaders(bytes.NewReader(nil), 0, TypeLog); err != nil || len(got) != 0 {
		t.Fatalf("of an empty file: %+v, %v", got, err)
	}
}

// failingReader fails all reads from some offset on.
type failingReader struct {
	file []byte
	from int64
}

var errDisk = errors.New("the disk is gone")

func (r failingReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > r.from {
		return 0, errDisk
	}
	return copy(p, r.file[off:]), nil
}

func TestReader_FailedReadIsNeverTheEnd(t *testing.T) {
	t.Parallel()
	f := newTestFile(rand.New(rand.NewPCG(3, 6)), 12, 90)
	r := NewReader(failingReader{f.bytes, Start}, int64(len(f.bytes)), testSalt, nil)
	if _, err := r.Next(); !errors.Is(err, errDisk) {
		t.Fatalf("%v", err)
	}
	short := NewReader(bytes.NewReader(f.bytes[:Start+40]), int64(len(f.bytes)), testSalt, nil)
	if _, err := short.Next(); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a file shorter than it was said to be: %v", err)
	}
}

func TestReader_GivesUpOnAFileMadeToKeepItBusy(t *testing.T) {
	t.Parallel()
	// Each place looks like the beginning of a large frame.
	file := make([]byte, 2<<20)
	for at := Start; at+16 <= len(file); at += 16 {
		binary.LittleEndian.PutUint32(file[at+8:], tag(testSalt)|uint32(Whole))
		binary.LittleEndian.PutUint32(file[at+12:], MaxPayload)
	}
	_, r, err := readAll(file)
	if !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("%v", err)
	}
	if r.checked > int64(len(file))+scanSlack+2*MaxPayload {
		t.Fatalf("%d bytes were checked", r.checked)
	}
}
