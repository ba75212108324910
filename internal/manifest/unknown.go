package manifest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// A Field is a field of an edit that only a later stoat knows, and that this one
// may ignore. The state keeps the newest field of each tag, and snapshots write it
// back. A field without a value ends the one before.
type Field struct {
	Tag   uint16
	Value string
}

const (
	// unknownMax is the largest number of fields in a state that this version does
	// not know.
	unknownMax = 64
	// unknownSizeMax is the largest value of such a field in bytes.
	unknownSizeMax = 64 << 10
)

// decodeUnknown decodes a field that this version does not know. t is ignorable.
func (e *Edit) decodeUnknown(t tag, v []byte, offset int64) error {
	if len(v) > unknownSizeMax {
		return base.Corrupt(offset, fmt.Sprintf("size of field %d", t), len(v), fmt.Sprintf("at most %d", unknownSizeMax))
	}
	e.Unknown = append(e.Unknown, Field{Tag: uint16(t), Value: string(v)})
	return nil
}

// addUnknown returns fields after those of an edit. It does not change fields.
func addUnknown(fields, more []Field) ([]Field, error) {
	if len(more) == 0 {
		return fields, nil
	}
	next := slices.Clone(fields)
	for _, f := range more {
		i, found := slices.BinarySearchFunc(next, f.Tag, func(f Field, tag uint16) int { return cmp.Compare(f.Tag, tag) })
		switch {
		case found && f.Value == "":
			next = slices.Delete(next, i, i+1)
		case found:
			next[i] = f
		case f.Value != "":
			next = slices.Insert(next, i, f)
		}
	}
	if len(next) > unknownMax {
		return nil, fmt.Errorf("manifest: %d fields of a later version, want at most %d", len(next), unknownMax)
	}
	if len(next) == 0 {
		next = nil
	}
	return next, nil
}
