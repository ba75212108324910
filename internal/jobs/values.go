package jobs

import (
	"bytes"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/values"
)

// foldValueMax is the length in bytes of the longest value in a value file that a flush
// or a merge folds operands onto.
const foldValueMax = 64 << 20

// value is compact.Job.Value.
func (j *Jobs) value(e *base.Entry) (value []byte, err error) {
	slot, v, err := j.store.HoldView()
	if err != nil {
		return nil, err
	}
	defer j.store.Release(slot)
	err = fault.Guard(func() error {
		p, err := values.DecodePointer(e.Value)
		if err != nil {
			return err
		}
		if p.ValueLen > foldValueMax {
			return fmt.Errorf("a value of %d bytes, of at most %d", p.ValueLen, foldValueMax)
		}
		r, err := v.Tree.Values(p.File)
		if err != nil {
			return err
		}
		b, err := r.Get(p, e.Key, e.Seq, nil)
		value = bytes.Clone(b)
		return err
	})
	return value, err
}

// screen is compact.Job.Screen.
func (j *Jobs) screen(e *base.Entry) (compact.Decision, []byte) {
	return j.o.Screen(e, func() ([]byte, error) {
		if e.Meta.Kind == base.KindPointer {
			return j.value(e)
		}
		return e.Value, nil
	})
}
