package values

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/codec"
)

// smallFile returns a file with every feature of the format but chunks. It is rewritten
// if remapped is set.
func smallFile(t testing.TB, remapped bool) ([]byte, []stored) {
	t.Helper()
	var values []stored
	for i := range 7 {
		values = append(values, stored{key: fmt.Appendf(nil, "key-%d", i), seq: 5, value: bytes.Repeat([]byte{byte(i)}, 60*i)})
	}
	data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt, Compression: codec.S2})
	if !remapped {
		return data, values
	}
	r, err := openBytes(t, data, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // all results have been read
	values = append(values[5:6:6], values[1:4]...)
	data, _, err = rewrite(t, r, liveOf(values), testSalt)
	if err != nil {
		t.Fatal(err)
	}
	return data, values
}

// exercise reads data in every way. Every answer must be right or a corruption error.
// It returns the number of errors.
func exercise(t *testing.T, data []byte, values []stored) int {
	r, err := openBytes(t, data, testSalt)
	if err != nil {
		mustBeCorrupt(t, err)
		return 1
	}
	defer func() { _ = r.Close() }() // a failed close would have failed in Open
	failed := 0
	note := func(err error) bool {
		mustBeCorrupt(t, err)
		if err != nil {
			failed++
		}
		return err == nil
	}
	for _, s := range values {
		for range 2 {
			if got, err := r.Get(s.p, s.key, s.seq, nil); note(err) && !bytes.Equal(got, s.value) {
				t.Fatalf("a wrong value: %x", got)
			}
		}
		v, err := r.NewValueReader(s.p, s.key, s.seq)
		if !note(err) {
			continue
		}
		if got, err := io.ReadAll(v); note(err) && !bytes.Equal(got, s.value) {
			t.Fatalf("a wrong value in parts: %x", got)
		}
	}
	note(r.Verify(nil))
	return failed
}

func TestDamage_EveryFlippedByteIsAnError(t *testing.T) {
	t.Parallel()
	for _, remapped := range []bool{false, true} {
		data, values := smallFile(t, remapped)
		if n := exercise(t, data, values); n != 0 {
			t.Fatalf("%d errors before any damage", n)
		}
		for i := 0; i < len(data); i += step() {
			for _, flip := range []byte{1, 0x80, 0xff} {
				damaged := bytes.Clone(data)
				damaged[i] ^= flip
				if exercise(t, damaged, values) == 0 {
					t.Fatalf("remapped=%v: the change of byte %d was not reported", remapped, i)
				}
			}
		}
		for n := 0; n < len(data); n += step() {
			if exercise(t, data[:n], values) == 0 {
				t.Fatalf("a cut of %d bytes was not reported", len(data)-n)
			}
		}
	}
}

func TestDamage_EveryPartOfALargeValueIsChecked(t *testing.T) {
	t.Parallel()
	values := largeValues(rand.New(rand.NewPCG(1, 5)))[4:9]
	data, props := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
	end := int64(fileHeaderSize) + int64(props.Bytes)
	for at := int64(fileHeaderSize); at < end; at += int64(30_011 * step()) {
		mustSeeFlip(t, data, values, at)
	}
	for _, s := range values {
		for back := int64(1); back < 60; back += int64(step()) {
			mustSeeFlip(t, data, values, s.p.Offset+s.p.Length()-back)
		}
	}
}

func mustSeeFlip(t *testing.T, data []byte, values []stored, at int64) {
	t.Helper()
	damaged := bytes.Clone(data)
	damaged[at] ^= 1
	if exercise(t, damaged, values) == 0 {
		t.Fatalf("the change of byte %d was not reported", at)
	}
}

// step is the distance between tested places of damage. Short runs test fewer places.
func step() int {
	if testing.Short() {
		return 17
	}
	return 1
}

// The record has the right checksum.
func TestDamage_AByteOtherThanZeroBehindAValueIsReported(t *testing.T) {
	t.Parallel()
	for _, size := range []int{60, 2*chunkSize + 1} { // in one part and in chunks
		values := []stored{{key: []byte("key"), seq: 5, value: make([]byte, size)}}
		data, _ := mustWrite(t, values, WriterOptions{Num: testNum, Salt: testSalt})
		if n := exercise(t, data, values); n != 0 {
			t.Fatalf("a value of %d bytes: %d errors before any damage", size, n)
		}
		h, err := decodeHeader(data[fileHeaderSize:], fileHeaderSize, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		data[fileHeaderSize+h.valueEnd()] = 1
		reseal(data)
		const reads = 4 // two of Get, one of NewValueReader, one of Verify
		if n := exercise(t, data, values); n != reads {
			t.Errorf("a value of %d bytes: %d of %d reads fail", size, n, reads)
		}
	}
}

func TestOpen_RefusesTheChecksumOfARemapThatIsNotThere(t *testing.T) {
	t.Parallel()
	data, _ := smallFile(t, false)
	le := binary.LittleEndian
	at := len(data) - footerSize
	tail := data[at:]
	le.PutUint64(tail[104:], 1)
	le.PutUint64(tail[112:], partSum(testSalt, tail[:112], int64(at)))
	_, err := openBytes(t, data, testSalt)
	mustBeCorrupt(t, err)
	if err == nil {
		t.Error("the file opens")
	}
}

// reseal gives a damaged file valid checksums, like an attacker.
func reseal(data []byte) {
	le := binary.LittleEndian
	size := int64(len(data))
	if size < fileHeaderSize+footerSize {
		return
	}
	head, tail := data[:fileHeaderSize], data[size-footerSize:]
	le.PutUint64(head[16:], testSalt)
	le.PutUint64(head[24:], testNum)
	le.PutUint64(head[32:], partSum(testSalt, head[:32], 0))
	le.PutUint64(tail[16:], testSalt)
	le.PutUint64(tail[24:], testNum)
	if end := int64(le.Uint64(tail[40:])); end >= fileHeaderSize && end <= size-footerSize {
		sum := uint64(0)
		if le.Uint32(tail[88:]) > 0 {
			sum = partSum(testSalt, data[end:size-footerSize], end)
		}
		le.PutUint64(tail[104:], sum)
		resealRecords(data[:end])
	}
	le.PutUint64(tail[112:], partSum(testSalt, tail[:112], size-footerSize))
}

func resealRecords(data []byte) {
	end := int64(len(data))
	for at := int64(fileHeaderSize); end-at >= headerSize; {
		h, err := decodeHeader(data[at:], at, end)
		if err != nil {
			return
		}
		rec := data[at : at+h.size()]
		binary.LittleEndian.PutUint64(rec, h.recordSum(testSalt, at, rec))
		at += h.size()
	}
}
