package partial

import (
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
)

// A Step is one operand or one renewal. Operand is nil for a renewal.
//
// The value of a partial entry is one or more steps, the oldest first. A step:
//
//	size  field
//	1-3   0 for a renewal, otherwise the length of the operand plus 1, unsigned
//	      varint
//	8     time of the commit, milliseconds of Unix time, little-endian
//	1-9   of a renewal: the new expiry in milliseconds of Unix time, 0 for never,
//	      unsigned varint
//	...   the operand
//
// An entry of base.KindMerge has at least one operand, an entry of base.KindRenew has
// none.
//
// The time has a fixed width, because the commit replaces it in place.
type Step struct {
	TimeMs  uint64
	Expires uint64
	Operand []byte
}

// timeSize is the length of an encoded time in bytes.
const timeSize = 8

// AppendOperand appends a step to the value of a partial entry.
func AppendOperand(dst []byte, timeMs uint64, operand []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(operand))+1)
	dst = binary.LittleEndian.AppendUint64(dst, timeMs)
	return append(dst, operand...)
}

// AppendRenewal appends a step to the value of a partial entry.
func AppendRenewal(dst []byte, timeMs, expires uint64) []byte {
	dst = append(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, timeMs)
	return binary.AppendUvarint(dst, expires)
}

// appendStep appends any step.
func appendStep(dst []byte, s *Step) []byte {
	if s.Operand == nil {
		return AppendRenewal(dst, s.TimeMs, s.Expires)
	}
	return AppendOperand(dst, s.TimeMs, s.Operand)
}

// Restamp raises the times of the steps of a partial entry to timeMs, in place.
func Restamp(value []byte, timeMs uint64) {
	for d := (decoder{rest: value}); len(d.rest) > 0; {
		s, err := d.step()
		if err != nil {
			return // the reader of the entry reports it
		}
		if s.TimeMs < timeMs {
			binary.LittleEndian.PutUint64(d.time, timeMs)
		}
	}
}

// Decode appends the steps of the value of an entry of kind k to dst. Operands are slices
// of value.
func Decode(dst []Step, k base.Kind, value []byte) ([]Step, error) {
	d := decoder{rest: value}
	operands := 0
	for {
		s, err := d.step()
		if err != nil {
			return dst, err
		}
		if s.Operand != nil {
			operands++
		}
		dst = append(dst, s)
		if len(d.rest) == 0 {
			break
		}
	}
	if !k.Partial() || operands > 0 != (k == base.KindMerge) {
		return dst, base.Corrupt(-1, "operands of a partial entry", operands, "as its kind says")
	}
	return dst, nil
}

type decoder struct {
	rest []byte
	time []byte // the encoded time of the last step, a slice of the value
}

func (d *decoder) step() (s Step, err error) {
	head, err := d.number("length of an operand", base.MaxOperandSize+1)
	if err != nil {
		return s, err
	}
	if len(d.rest) < timeSize {
		return s, base.Corrupt(-1, "bytes of the time of a step", len(d.rest), timeSize)
	}
	d.time, d.rest = d.rest[:timeSize], d.rest[timeSize:]
	if s.TimeMs = binary.LittleEndian.Uint64(d.time); s.TimeMs > base.TimeMsMax {
		return s, base.Corrupt(-1, "time of a step", s.TimeMs, uint64(base.TimeMsMax))
	}
	if head == 0 {
		s.Expires, err = d.number("expiry of a renewal", base.TimeMsMax)
		return s, err
	}
	n := head - 1
	if n > uint64(len(d.rest)) {
		return s, base.Corrupt(-1, "operand beyond the end", n, len(d.rest))
	}
	s.Operand, d.rest = d.rest[:n:n], d.rest[n:]
	return s, nil
}

// number reads a varint in its shortest form, up to most.
func (d *decoder) number(what string, most uint64) (uint64, error) {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || size > 1 && d.rest[size-1] == 0 {
		return 0, base.Corrupt(-1, what, "a bad varint", "a varint")
	}
	if n > most {
		return 0, base.Corrupt(-1, what, n, most)
	}
	d.rest = d.rest[size:]
	return n, nil
}
