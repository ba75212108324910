package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestBuilder_MayBeWrittenOutAnywhere(t *testing.T) {
	t.Parallel()
	payload := []byte("a record of several frames that goes to the file in pieces")
	var whole Builder = NewBuilder(testSalt, 10, nil)
	whole.Record([]byte("before"), 0)
	whole.Record(payload, 0)
	want, _ := whole.Sealed()

	b := NewBuilder(testSalt, 10, nil)
	file := make([]byte, Start)
	writeOut := func() {
		p, offset := b.Sealed()
		if offset != int64(len(file)) {
			t.Fatalf("frames for offset %d, want %d", offset, len(file))
		}
		file = append(file, p...)
		b.Reset()
	}
	b.Record([]byte("before"), 0)
	b.Begin()
	for _, c := range payload {
		for p := []byte{c}; len(p) > 0; {
			p = b.Write(p, 0)
			writeOut()
		}
	}
	b.End(0)
	writeOut()
	if !bytes.Equal(file[Start:], want) {
		t.Fatalf("%x, want %x", file[Start:], want)
	}
}

func TestBuilder_ContinuesInAFileAndInTheNextOne(t *testing.T) {
	t.Parallel()
	b := NewBuilder(testSalt, MaxPayload, nil)
	b.SetEarly(true)
	b.Record([]byte("one"), 0)
	b.SetEarly(false)
	frames, _ := b.Sealed()
	file := append(make([]byte, Start), frames...)

	more := ContinueBuilder(testSalt, nil, b.Offset(), b.Chain())
	more.Record([]byte("two"), Start)
	frames, _ = more.Sealed()
	file = append(file, frames...)
	got, r, err := readAll(file)
	if err != nil || len(got) != 2 {
		t.Fatalf("%q: %v", got, err)
	}
	rest := ContinueReader(bytes.NewReader(file), int64(len(file)), testSalt, nil, b.Offset(), b.Chain())
	rec, err := rest.NextRecord()
	if err != nil || string(rec.Payload) != "two" || rec.Early || rec.Durable != Start || rec.End != r.Offset() {
		t.Fatalf("%+v: %v", rec, err)
	}
	early, err := AnyFrame(bytes.NewReader(file), int64(len(file)), testSalt, nil, func(f Frame) bool { return f.Early })
	if err != nil || !early {
		t.Fatalf("no early frame: %v", err)
	}

	more.Reset()
	more.Switch(testSalt+1, nil)
	more.Record([]byte("three"), 0)
	frames, offset := more.Sealed()
	if offset != Start {
		t.Fatalf("the next file begins at %d", offset)
	}
	next := append(make([]byte, Start), frames...)
	rec, err = NewReader(bytes.NewReader(next), int64(len(next)), testSalt+1, nil).NextRecord()
	if err != nil || string(rec.Payload) != "three" {
		t.Fatalf("%+v: %v", rec, err)
	}
}

func TestRecord_ReportsPartsOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]Kind{{Middle}, {Last}, {First, Whole}, {First, First}, {First, Middle, Mark},
		{First, Close}, {Whole, Last}, {First, Last, Middle}} {
		b := NewBuilder(testSalt, MaxPayload, nil)
		for _, kind := range kinds {
			payload := []byte("part")
			if kind == Mark || kind == Close {
				payload = nil
			}
			b.Frame(kind, payload, 0)
		}
		frames, _ := b.Sealed()
		_, r, err := readAll(append(make([]byte, Start), frames...))
		if !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%v: %v", kinds, err)
		}
		if _, again := r.NextRecord(); !errors.Is(again, err) {
			t.Errorf("%v: first %v, then %v", kinds, err, again)
		}
	}
}

func TestFrame_ThatBreaksTheRulesDoesNotVerify(t *testing.T) {
	t.Parallel()
	frame := func(change func(b []byte)) []byte {
		b := make([]byte, FrameSize(5))
		copy(b[FrameHeaderSize:], "hello")
		sealFrame(b, uint8(Whole), 5, testSalt, testSalt, Start, Start, nil)
		change(b)
		binary.LittleEndian.PutUint64(b, base.Checksum(b[8:], seed(testSalt, Start)))
		return append(make([]byte, Start), b...)
	}
	if got, _, err := readAll(frame(func([]byte) {})); err != nil || len(got) != 1 {
		t.Fatalf("%q: %v", got, err)
	}
	for name, change := range map[string]func(b []byte){
		"unknown kind":  func(b []byte) { b[8] = 8 },
		"no kind":       func(b []byte) { b[8] = 0 },
		"another tag":   func(b []byte) { b[9]++ },
		"padding":       func(b []byte) { b[FrameHeaderSize+6] = 1 },
		"mark beyond":   func(b []byte) { binary.LittleEndian.PutUint64(b[24:], Start+8) },
		"mark below 0":  func(b []byte) { binary.LittleEndian.PutUint64(b[24:], 1<<63) },
		"mark of bytes": func(b []byte) { b[8] = uint8(Mark) },
		"close payload": func(b []byte) { b[8] = uint8(Close) },
		"length":        func(b []byte) { binary.LittleEndian.PutUint32(b[12:], 1<<31) },
		"chain":         func(b []byte) { b[16]++ },
	} {
		got, r, err := readAll(frame(change))
		if len(got) != 0 || (err == nil && r.Torn() == nil) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestHeader_OfALaterVersionIsNotCorruption(t *testing.T) {
	t.Parallel()
	b := AppendHeader(nil, Header{Type: TypeLog, Number: 1, File: 1, Salt: 1, Size: Start})
	binary.LittleEndian.PutUint32(b[8:], FormatVersion+1)
	binary.LittleEndian.PutUint64(b[48:], base.Checksum(b[:48], 0))
	_, err := ReadHeaders(bytes.NewReader(b), Start, TypeLog)
	if !errors.Is(err, base.ErrVersion) || errors.Is(err, base.ErrCorrupt) || !strings.Contains(err.Error(), "2") {
		t.Fatalf("%v", err)
	}
}

func TestHeader_ThatCannotBeReadIsNotMissing(t *testing.T) {
	t.Parallel()
	if _, err := ReadHeaders(failingReader{nil, 0}, Start, TypeLog); !errors.Is(err, errDisk) {
		t.Fatalf("%v", err)
	}
	if _, err := ReadHeaders(bytes.NewReader(nil), Start, TypeLog); !errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a file shorter than it was said to be: %v", err)
	}
}

func TestReader_UnreadableFileIsNeverTheEnd(t *testing.T) {
	t.Parallel()
	b := NewBuilder(testSalt, MaxPayload, nil)
	for range 40 {
		b.Record(make([]byte, 60_000), 0)
	}
	frames, _ := b.Sealed()
	file := append(make([]byte, Start), frames...)
	for from := int64(Start); from < int64(len(file)); from += 100_000 {
		r := NewReader(failingReader{file, from}, int64(len(file)), testSalt, nil)
		var err error
		for err == nil {
			_, err = r.NextRecord()
		}
		if !errors.Is(err, errDisk) {
			t.Fatalf("unreadable from %d: %v", from, err)
		}
	}
	// Not even if the search behind a bad frame hits the unreadable place.
	clear(file[Start : Start+8])
	r := NewReader(failingReader{file, 1 << 20}, int64(len(file)), testSalt, nil)
	if _, err := r.Next(); err == io.EOF || !errors.Is(err, errDisk) {
		t.Fatalf("%v", err)
	}
}

func TestKind_HasAName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for k := range Kind(9) {
		seen[k.String()] = true
	}
	if len(seen) != 9 {
		t.Fatalf("%v", seen)
	}
}
