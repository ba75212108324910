package tree

import (
	"fmt"
	"math/bits"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

// A valueFile is a readable value file: its metadata and its handle.
type valueFile struct {
	*manifest.ValueFile
	*valueHandle
}

// Value returns the value of an entry of base.KindPointer; see values.Reader.Get.
func (v *View) Value(pointer, key []byte, seq base.SeqNum, arena *codec.Arena) ([]byte, error) {
	p, err := values.DecodePointer(pointer)
	if err != nil {
		return nil, err
	}
	r, err := v.Values(p.File)
	if err != nil {
		return nil, err
	}
	return r.Get(p, key, seq, arena)
}

// Values returns the reader of the value file with the given identity.
func (v *View) Values(num base.FileNum) (*values.Reader, error) {
	i := v.valueFile(num)
	if i == len(v.numbers) || v.numbers[i] != num {
		return nil, base.InFile(base.Corrupt(-1, "value file of a pointer", uint64(num), "a live one"), fmt.Sprintf("value file %d", num))
	}
	if r := v.values[i].reader.Load(); r != nil {
		return r, nil
	}
	return v.files.valueReader(v.values[i])
}

// valueReader returns the reader of v and opens it if needed.
func (f *Files) valueReader(v valueFile) (*values.Reader, error) {
	return v.open(base.ValueName(v.File), func() (*values.Reader, error) { return f.openMapped(v.ValueFile) })
}

// valueFile returns the index of the first value file whose identity is not less than
// num. The search has no branches that depend on the numbers, because the processor
// could not predict them.
func (v *View) valueFile(num base.FileNum) int {
	from, n := 0, len(v.numbers)
	for n > 1 {
		half := n / 2
		_, less := bits.Sub64(uint64(v.numbers[from+half-1]), uint64(num), 0)
		from += half & -int(less)
		n -= half
	}
	if n == 1 && v.numbers[from] < num {
		from++
	}
	return from
}
