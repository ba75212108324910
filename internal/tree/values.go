package tree

import (
	"fmt"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

// A valueFile is a value file that may be read.
type valueFile struct {
	*manifest.ValueFile
	*valueHandle
}

// Value returns the value that an entry of base.KindPointer has: pointer is
// what the entry stores, key and seq are its own. The value is borrowed until
// the view is given up.
func (v *View) Value(pointer, key []byte, seq base.SeqNum) ([]byte, error) {
	p, err := values.DecodePointer(pointer)
	if err != nil {
		return nil, err
	}
	r, err := v.valueReader(p.File)
	if err != nil {
		return nil, err
	}
	return r.Get(p, key, seq)
}

// valueReader returns the reader of the value file with the given identity.
func (v *View) valueReader(num base.FileNum) (*values.Reader, error) {
	i := sort.Search(len(v.values), func(i int) bool { return v.values[i].Num >= num })
	if i == len(v.values) || v.values[i].Num != num {
		return nil, base.InFile(base.Corrupt(-1, "value file of a pointer", uint64(num), "a live one"), fmt.Sprintf("value file %d", num))
	}
	f := &v.values[i]
	if r := f.reader.Load(); r != nil {
		return r, nil
	}
	return f.open(base.ValueName(f.File), func() (*values.Reader, error) { return v.files.OpenValues(f.ValueFile) })
}
