package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// FuzzRecordFrame reads any bytes as the frames of a file. Frames that verify
// must encode to the same bytes, and memory must stay in proportion.
func FuzzRecordFrame(f *testing.F) {
	for seed := range uint64(4) {
		file := newTestFile(rand.New(rand.NewPCG(seed, 1)), 4, 60)
		f.Add(file.bytes[Start:], uint64(testSalt))
	}
	f.Add([]byte{}, uint64(0))
	f.Add(bytes.Repeat([]byte{0xff}, 200), uint64(0))
	f.Fuzz(func(t *testing.T, frames []byte, salt uint64) {
		file := append(make([]byte, Start), frames...)
		r := NewReader(bytes.NewReader(file), int64(len(file)), salt, nil)
		at := Builder{offset: Start, salt: salt, chain: salt, payloadMax: MaxPayload}
		for {
			frame, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				if !errors.Is(err, base.ErrCorrupt) {
					t.Fatalf("%v is not corruption", err)
				}
				break
			}
			at.SetEarly(frame.Early)
			at.Frame(frame.Kind, frame.Payload, frame.Durable)
		}
		got, _ := at.Sealed()
		want := file[Start : Start+len(got)]
		// Padding is zeros, and the checksum covers it.
		if !bytes.Equal(got, want) {
			t.Fatalf("%x was read from %x", got, want)
		}
		if cap(r.window) > 2*len(file) {
			t.Fatalf("%d bytes were allocated for a file of %d", cap(r.window), len(file))
		}
	})
}

// FuzzRecordDamage changes some bytes of a file of records.
func FuzzRecordDamage(f *testing.F) {
	f.Add(uint64(1), []byte{1, 2, 3, 4})
	f.Add(uint64(2), []byte{0, 0, 1, 0, 1, 1, 0, 2, 1})
	f.Fuzz(func(t *testing.T, seed uint64, changes []byte) {
		file := newTestFile(rand.New(rand.NewPCG(seed%64, 1)), 10, 60)
		damaged := bytes.Clone(file.bytes)
		first := len(damaged)
		for ; len(changes) >= 3; changes = changes[3:] {
			at := Start + (int(changes[0])<<8|int(changes[1]))%(len(damaged)-Start)
			damaged[at] ^= changes[2]
			first = min(first, at)
		}
		file.durable = intactMark(damaged)
		if err := checkDamaged(file, damaged, int64(first)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzHeader decodes a copy of a header, with its own checksum or with one that
// fits. The copy must be no header, be of a later version, or equal what its
// contents encode to.
func FuzzHeader(f *testing.F) {
	h := Header{Type: TypeLog, Number: 3, File: NumberMax, Salt: testSalt, Size: Start}
	good := AppendHeader(nil, h)[:headerSize]
	f.Add(good, false)
	for _, change := range []func(b []byte){
		func(b []byte) { b[8]++ },
		func(b []byte) { b[12]++ },
		func(b []byte) { b[23] |= 0x80 },
		func(b []byte) { b[47] |= 0x80 },
		func(b []byte) { binary.LittleEndian.PutUint64(b[40:], Start-1) },
	} {
		b := bytes.Clone(good)
		change(b)
		f.Add(b, true)
	}
	h.Key = base.KeyRef{ID: 7}
	f.Add(AppendHeader(nil, h)[:headerSize], false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if len(b) != headerSize {
			return
		}
		if b = bytes.Clone(b); seal {
			copy(b, TypeLog[:])
			binary.LittleEndian.PutUint64(b[48:], base.Checksum(b[:48], 0))
			binary.LittleEndian.PutUint64(b[112:], base.Checksum(b[56:112], 0))
		}
		h, ok, err := decodeHeader(b, TypeLog, 0)
		switch later := binary.LittleEndian.Uint32(b[8:]) != FormatVersion; {
		case err != nil && (ok || !later || !errors.Is(err, base.ErrVersion)):
			t.Fatalf("%x: %v, ok %v", b, err, ok)
		case ok && !h.Key.Sealed() && !bytes.Equal(AppendHeader(nil, h)[:plainSize], b[:plainSize]):
			t.Fatalf("%x is %+v", b, h)
		case ok && h.Key.Sealed() && !bytes.Equal(AppendHeader(nil, h)[:headerSize], b):
			t.Fatalf("%x is %+v", b, h)
		}
	})
}
