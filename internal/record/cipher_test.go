package record

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// testSealer derives keys by a hash.
type testSealer struct{ files uint32 }

func (s *testSealer) NewFile(label string) (base.KeyRef, cipher.AEAD, error) {
	s.files++
	ref := base.KeyRef{ID: 1}
	binary.LittleEndian.PutUint32(ref.Salt[:], s.files)
	aead, err := s.OpenFile(ref, label)
	return ref, aead, err
}

func (s *testSealer) OpenFile(ref base.KeyRef, label string) (cipher.AEAD, error) {
	key := sha256.Sum256(append([]byte(label), ref.Salt[:]...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// sealedFile returns a sealed file of records of these lengths, and the records.
func sealedFile(t *testing.T, s Sealer, lengths ...int) (file []byte, records [][]byte) {
	t.Helper()
	h := Header{Type: TypeLog, Number: 3, File: 4, Salt: testSalt, Size: 64 << 10}
	aead, err := h.Seal(s)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBuilder(testSalt, 1000, aead)
	for i, n := range lengths {
		records = append(records, bytes.Repeat([]byte{'a' + byte(i)}, n))
		b.Record(records[i], b.Offset())
	}
	b.Finish(Close, b.Offset())
	frames, _ := b.Sealed()
	file = append(AppendHeader(nil, h), frames...)
	return append(file, make([]byte, int(h.Size)-len(file))...), records
}

// readSealed reads the records of a sealed file. It fails if the close frame is missing.
func readSealed(s Sealer, file []byte) (records [][]byte, err error) {
	headers, err := ReadHeaders(bytes.NewReader(file), int64(len(file)), TypeLog)
	if err != nil || len(headers) != 1 {
		return nil, errors.Join(err, base.Corrupt(0, "headers", len(headers), 1))
	}
	if headers[0].Size != int64(len(file)) {
		return nil, base.Corrupt(0, "size of the file", len(file), headers[0].Size)
	}
	aead, err := headers[0].Open(s)
	if err != nil {
		return nil, err
	}
	r := NewReader(bytes.NewReader(file), int64(len(file)), headers[0].Salt, aead)
	for {
		rec, err := r.NextRecord()
		switch {
		case err == io.EOF:
			if bad := r.Torn(); bad != nil {
				return records, bad
			}
			return records, nil
		case err != nil:
			return records, err
		case rec.Kind == Close:
			return records, nil
		case rec.Kind == Whole:
			records = append(records, bytes.Clone(rec.Payload))
		}
	}
}

func TestSealed_RecordsComeBack(t *testing.T) {
	t.Parallel()
	s := &testSealer{}
	file, want := sealedFile(t, s, 0, 1, 31, 1000, 1001, 5000)
	got, err := readSealed(s, file)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("record %d differs", i)
		}
		if n := len(want[i]); n > 20 && bytes.Contains(file, want[i][:16]) {
			t.Errorf("record %d is in plain text", i)
		}
	}
	for what, sealer := range map[string]Sealer{"another salt": shiftedSealer{s}, "no keys": nil} {
		if _, err := readSealed(sealer, file); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	plain := AppendHeader(nil, Header{Type: TypeLog, Number: 3, File: 4, Salt: testSalt, Size: 64 << 10})
	if _, err := readSealed(s, append(plain, make([]byte, 64<<10-Start)...)); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("a plain file: %v", err)
	}
}

// shiftedSealer derives other keys.
type shiftedSealer struct{ *testSealer }

func (s shiftedSealer) OpenFile(ref base.KeyRef, label string) (cipher.AEAD, error) {
	return s.testSealer.OpenFile(ref, label+"?")
}

// TestSealed_DamageIsNoRecord changes bits, moves frames and cuts the file: no other
// record comes back, and what was durable is missed.
func TestSealed_DamageIsNoRecord(t *testing.T) {
	t.Parallel()
	s := &testSealer{}
	file, want := sealedFile(t, s, 40, 40, 300, 1500)
	other, _ := sealedFile(t, s, 40, 40, 300, 1500)
	check := func(what string, b []byte) {
		t.Helper()
		got, err := readSealed(s, b)
		if len(got) > len(want) {
			t.Fatalf("%s: %d records", what, len(got))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%s: record %d differs", what, i)
			}
		}
		if len(got) < len(want) && !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("%s: %d records of %d, %v", what, len(got), len(want), err)
		}
	}
	end := bytes.LastIndexFunc(file, func(r rune) bool { return r != 0 }) + 1
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		b := bytes.Clone(file)
		at := Start + rng.IntN(end-Start)
		b[at] ^= 1 << rng.IntN(8)
		check("flip", b)
	}
	for at := range headerSize {
		b := bytes.Clone(file)
		b[at] ^= 1
		check("flip in one copy of the header", b)
		b[pageSize+at] ^= 1
		check("flip in both copies of the header", b)
	}
	b := bytes.Clone(file)
	size := int(FrameSize(40))
	copy(b[Start:], file[Start+size:Start+2*size])
	copy(b[Start+size:], file[Start:Start+size])
	check("swapped frames", b)
	b = bytes.Clone(file)
	copy(b[Start:], other[Start:Start+size])
	check("a frame of another use of the file", b)
	copy(b, other[:Start])
	check("a header of another use of the file", b)
	check("cut", file[:Start+size+10])
}
