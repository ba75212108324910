package tree

import (
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

// A valueFile is a value file that may be read.
type valueFile struct {
	*manifest.ValueFile
	*valueHandle
}

// Values returns the reader of the value file with the given identity.
func (v *View) Values(num base.FileNum) (*values.Reader, error) {
	i := v.valueFile(num)
	if i == len(v.values) || v.values[i].Num != num {
		return nil, base.InFile(base.Corrupt(-1, "value file of a pointer", uint64(num), "a live one"), fmt.Sprintf("value file %d", num))
	}
	f := &v.values[i]
	if r := f.reader.Load(); r != nil {
		return r, nil
	}
	return f.open(base.ValueName(f.File), func() (*values.Reader, error) { return v.files.openMapped(f.ValueFile) })
}

// valueFile returns the place of the first value file whose identity is not
// less than num. The search has no branches that depend on the numbers: which
// file a key's value is in, nobody can predict.
func (v *View) valueFile(num base.FileNum) int {
	from, n := 0, len(v.values)
	for n > 1 {
		half := n / 2
		if v.values[from+half-1].Num < num {
			from += half
		}
		n -= half
	}
	if n == 1 && v.values[from].Num < num {
		from++
	}
	return from
}
