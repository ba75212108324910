package record

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/hostile"
)

// PassRecord holds at most one frame of a record.
func TestPassRecord_DoesNotAssembleTheRecord(t *testing.T) {
	const frames = 40
	b := NewBuilder(testSalt, 100_000, nil)
	b.Record(make([]byte, frames*100_000), 0)
	b.Record([]byte("next"), 0)
	p, _ := b.Sealed()
	file := append(make([]byte, Start), p...)
	r := NewReader(bytes.NewReader(file), int64(len(file)), testSalt, nil)
	n := hostile.Allocated(func() {
		if rec, err := r.PassRecord(); err != nil || rec.Kind != Whole || rec.End != Start+frames*FrameSize(100_000) {
			t.Errorf("%v to %d: %v", rec.Kind, rec.End, err)
		}
	})
	if n > 1<<20 {
		t.Errorf("%d bytes are allocated", n)
	}
	if rec, err := r.NextRecord(); err != nil || string(rec.Payload) != "next" {
		t.Errorf("behind it there is %q: %v", rec.Payload, err)
	}
}

// The reader checks a length against the rest of the file before it allocates.
func TestGarbage_LengthsAllocateLittle(t *testing.T) {
	for _, length := range []uint32{64, 1 << 20, 1<<30 - 1, 1 << 31, math.MaxUint32} {
		for _, kind := range []Kind{Whole, First, Mark, Next, Close} {
			b := make([]byte, FrameSize(5))
			sealFrame(b, uint8(kind), 5, testSalt, testSalt, Start, Start, nil)
			binary.LittleEndian.PutUint32(b[12:], length)
			binary.LittleEndian.PutUint64(b, base.Checksum(b[8:], seed(testSalt, Start)))
			file := append(make([]byte, Start), b...)
			var got []Frame
			n := hostile.Allocated(func() {
				r := NewReader(bytes.NewReader(file), int64(len(file)), testSalt, nil)
				for {
					f, err := r.Next()
					if err != nil {
						return
					}
					got = append(got, f)
				}
			})
			if len(got) > 0 || n > 1<<20 {
				t.Errorf("a frame of kind %v and %d bytes, of which there are 5: %d bytes are allocated, frames %v", kind, length, n, got)
			}
		}
	}
}
