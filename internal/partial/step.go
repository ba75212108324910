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
//	1-9   time of the commit, milliseconds of Unix time, unsigned varint
//	1-9   of a renewal: the new expiry in milliseconds of Unix time, 0 for never,
//	      unsigned varint
//	...   the operand
//
// An entry of base.KindMerge has at least one operand, an entry of base.KindRenew has
// none.
type Step struct {
	TimeMs  uint64
	Expires uint64
	Operand []byte
}

// AppendOperand appends a step to the value of a partial entry.
func AppendOperand(dst []byte, timeMs uint64, operand []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(operand))+1)
	dst = binary.AppendUvarint(dst, timeMs)
	return append(dst, operand...)
}

// AppendRenewal appends a step to the value of a partial entry.
func AppendRenewal(dst []byte, timeMs, expires uint64) []byte {
	dst = append(dst, 0)
	dst = binary.AppendUvarint(dst, timeMs)
	return binary.AppendUvarint(dst, expires)
}

// appendStep appends any step.
func appendStep(dst []byte, s *Step) []byte {
	if s.Operand == nil {
		return AppendRenewal(dst, s.TimeMs, s.Expires)
	}
	return AppendOperand(dst, s.TimeMs, s.Operand)
}

// Restamp raises the times of the steps of a partial entry to timeMs, in place. A time that
// would need more bytes stays, which takes a clock that passes 1971 or 2109 meanwhile.
func Restamp(value []byte, timeMs uint64) {
	var room [binary.MaxVarintLen64]byte
	stamp := binary.AppendUvarint(room[:0], timeMs)
	for d := (decoder{rest: value, size: len(value)}); len(d.rest) > 0; {
		s, err := d.step()
		if err != nil {
			return // the reader of the entry reports it
		}
		if at := value[d.timeAt:d.timeEnd]; s.TimeMs < timeMs && len(at) == len(stamp) {
			copy(at, stamp)
		}
	}
}

// Decode appends the steps of the value of an entry of kind k to dst. Operands are slices
// of value.
func Decode(dst []Step, k base.Kind, value []byte) ([]Step, error) {
	d := decoder{rest: value, size: len(value)}
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
	size int
	// timeAt and timeEnd are where the time of the last step begins and ends.
	timeAt, timeEnd int
}

func (d *decoder) step() (s Step, err error) {
	head, err := d.number("length of an operand", base.MaxOperandSize+1)
	if err != nil {
		return s, err
	}
	d.timeAt = d.size - len(d.rest)
	if s.TimeMs, err = d.number("time of a step", base.TimeMsMax); err != nil {
		return s, err
	}
	d.timeEnd = d.size - len(d.rest)
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
