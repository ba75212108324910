package values

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// FuzzPointer decodes a pointer and encodes it again.
func FuzzPointer(f *testing.F) {
	p := NewPointer(1, fileHeaderSize, recordMin, 0)
	f.Add(p.AppendTo(nil))
	f.Add(NewPointer(1<<32-1, offsetMax, 1<<20, 1<<32-1).AppendTo(nil))
	f.Add(bytes.Repeat([]byte{0xff}, PointerSize))
	p.Version = 7
	f.Add(p.AppendTo(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := DecodePointer(src)
		if err != nil {
			mustBeCorrupt(t, err)
			return
		}
		if again := p.AppendTo(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x became %x", src, again)
		}
	})
}

// FuzzRecordHeader decodes the header of a record and encodes it again.
func FuzzRecordHeader(f *testing.F) {
	h := header{seq: 9, valueLen: 300, storedLen: 200, keyLen: 5, codec: codec.S2}
	f.Add(h.append(nil), int64(1000))
	h.codec = codec.Zstd
	f.Add(h.append(nil), int64(1000))
	h = header{seq: 9, valueLen: 1 << 31, storedLen: 1 << 31, keyLen: 5}
	f.Add(h.append(nil), int64(1<<40))
	f.Fuzz(func(t *testing.T, src []byte, end int64) {
		const at = 64
		h, err := decodeHeader(src, at, end)
		if err != nil {
			mustBeCorrupt(t, err)
			return
		}
		if again := h.append(nil); !bytes.Equal(again, src[:headerSize]) {
			t.Fatalf("%x became %x", src, again)
		}
		if h.size() > end-at || h.size() > recordMax || h.valueEnd() > h.size() {
			t.Fatalf("%+v reaches beyond %d", h, end)
		}
	})
}

// FuzzFileHeader decodes the header of a file and encodes it again.
func FuzzFileHeader(f *testing.F) {
	f.Add(fileHeader{salt: 3, num: 4}.append(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		h, err := decodeFileHeader(src)
		if err != nil {
			mustBeCorrupt(t, err)
		} else if again := h.append(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x became %x", src, again)
		}
	})
}

// FuzzFooter decodes a footer, with the fuzzed checksum or a valid one, and encodes it
// again.
func FuzzFooter(f *testing.F) {
	for _, remapped := range []bool{false, true} {
		data, _ := smallFile(f, remapped)
		f.Add(data[len(data)-footerSize:], int64(len(data)))
	}
	f.Fuzz(func(t *testing.T, src []byte, size int64) {
		if len(src) == footerSize && size > 0 {
			whole := slices.Concat(make([]byte, fileHeaderSize), src)
			reseal(whole)
			foot, err := decodeFooter(whole[fileHeaderSize:], int64(len(whole)))
			mustBeCorrupt(t, err)
			if err == nil && foot.recordsEnd != fileHeaderSize {
				t.Fatalf("records in a file that has no room for them: %+v", foot)
			}
		}
		foot, err := decodeFooter(src, size)
		if err != nil {
			mustBeCorrupt(t, err)
		} else if again := foot.append(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x became %x", src, again)
		}
	})
}

// FuzzRemap decodes a remap. If it is valid, each lookup must end and stay within the
// records.
func FuzzRemap(f *testing.F) {
	shape, section := buildRemap([]move{{40, 80}, {80, 40}, {800, 120}, {808, 200}, {9000, 400}})
	f.Add(section, shape.count, shape.buckets, shape.shift)
	f.Fuzz(func(t *testing.T, section []byte, count, buckets, shift uint32) {
		const end = 1000
		s := remapShape{count: count, buckets: buckets, shift: shift}
		if err := s.check(0, int64(len(section))); err != nil {
			mustBeCorrupt(t, err)
			return
		}
		m, err := decodeRemap(s, section, 0, end)
		if err != nil {
			mustBeCorrupt(t, err)
			return
		}
		for i := range m.count {
			from, to := int64(load32(m.from, i))*unit, int64(load32(m.to, i))*unit
			if got, ok := m.find(from); !ok || got != to || got < fileHeaderSize || got > end-recordMin {
				t.Fatalf("%d leads to %d, %v", from, got, ok)
			}
		}
	})
}

// FuzzFile opens a fuzzed file, with the fuzzed checksums or with valid ones, and reads
// it in every way.
func FuzzFile(f *testing.F) {
	for _, remapped := range []bool{false, true} {
		data, _ := smallFile(f, remapped)
		f.Add(data, true)
		f.Add(data, false)
	}
	_, values := smallFile(f, false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		data = slices.Clone(data)
		if seal {
			reseal(data)
			survive(t, data, values)
		} else {
			survive(t, data, nil)
			exercise(t, data, nil)
		}
	})
}

// survive reads data that may be hostile: any value is allowed, but no panic.
func survive(t *testing.T, data []byte, values []stored) {
	r, err := openBytes(t, data, testSalt)
	if err != nil {
		mustBeCorrupt(t, err)
		return
	}
	defer func() { _ = r.Close() }() // a failed close would have failed in Open
	for _, s := range values {
		_, err := r.Get(s.p, s.key, s.seq, nil)
		mustBeCorrupt(t, err)
		_, err = r.NewValueReader(s.p, s.key, s.seq)
		mustBeCorrupt(t, err)
	}
	mustBeCorrupt(t, r.Verify(nil))
	if _, _, err := rewrite(t, r, liveOf(values), 3); err != nil && !errors.Is(err, ErrNothingLive) && !errors.Is(err, base.ErrCorrupt) {
		t.Fatal(err)
	}
}
