package manifest

import (
	"encoding/binary"
	"iter"

	"github.com/stoatdb/stoat/internal/base"
)

// A ValueRef is the part of a value file that a table keeps alive.
type ValueRef struct {
	File  base.FileNum
	Bytes uint64
}

// ValueRefs are the references of a table, ascending by file. A table of a large database
// may refer to thousands of files. So they stay encoded, in three or four bytes each
// instead of 16. They are immutable, and the zero value has none.
type ValueRefs struct {
	// encoded holds two varints for each reference: the number of the file less that of the
	// reference before, and the bytes. It is nil if there are none.
	encoded []byte
	count   int
	bytes   uint64 // of all references
}

// ValueRefsOf encodes references.
func ValueRefsOf(refs ...ValueRef) ValueRefs {
	r, file := ValueRefs{count: len(refs)}, base.FileNum(0)
	for _, ref := range refs {
		r.encoded = binary.AppendUvarint(r.encoded, uint64(ref.File-file))
		r.encoded = binary.AppendUvarint(r.encoded, ref.Bytes)
		r.bytes += ref.Bytes
		file = ref.File
	}
	return r
}

// decodeValueRefs takes references from v, which is at offset. They do not alias v.
func decodeValueRefs(v []byte, offset int64) (ValueRefs, error) {
	if len(v) == 0 {
		return ValueRefs{}, base.Corrupt(offset, "references of a table", "none", "one or more")
	}
	var r ValueRefs
	for at := 0; at < len(v); r.count++ {
		var bytes uint64
		for range 2 { // the second number is that of bytes
			n := 0
			bytes, n = binary.Uvarint(v[at:])
			if n <= 0 || n > 1 && v[at+n-1] == 0 { // longer than necessary
				return ValueRefs{}, base.Corrupt(offset+int64(at), "references of a table", "a bad varint", "a varint")
			}
			at += n
		}
		r.bytes += bytes
	}
	r.encoded = append(r.encoded, v...)
	return r, nil
}

// All iterates over the references.
func (r ValueRefs) All() iter.Seq[ValueRef] {
	return func(yield func(ValueRef) bool) {
		file := base.FileNum(0)
		for rest := r.encoded; len(rest) > 0; {
			step, n := binary.Uvarint(rest)
			bytes, m := binary.Uvarint(rest[n:])
			rest, file = rest[n+m:], file+base.FileNum(step)
			if !yield(ValueRef{file, bytes}) {
				return
			}
		}
	}
}

// Len returns the number of references.
func (r ValueRefs) Len() int { return r.count }
