package jobs

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

// foldValueMax is the length in bytes of the longest value in a value file that a flush
// or a merge folds operands onto.
const foldValueMax = 64 << 20

// value is compact.Job.Value.
func (j *Jobs) value(e *base.Entry) ([]byte, error) { return j.valueUpTo(foldValueMax, e) }

// valueUpTo returns a copy of the value of e, which lies in a value file. A value of more than
// most bytes is an error.
func (j *Jobs) valueUpTo(most uint32, e *base.Entry) (value []byte, err error) {
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
		if p.ValueLen > most {
			return fmt.Errorf("a value of %d bytes, of at most %d", p.ValueLen, most)
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
			return j.valueUpTo(base.MaxValueSize, e)
		}
		return e.Value, nil
	})
}

// Screened returns compact.Range.Screened, for the filters that keyspaces have now.
func (j *Jobs) Screened() func(t *manifest.Table) bool {
	if j.o.Screen == nil {
		return nil
	}
	var filtered []compact.Span // ascending
	for _, k := range j.store.State().Keyspaces {
		if !k.Dropping && j.o.Settings(k.Number).Filter != "" {
			lo, hi := keyspace.Bounds(k.Number)
			filtered = append(filtered, compact.Span{Lo: lo, Hi: hi})
		}
	}
	return func(t *manifest.Table) bool {
		i := sort.Search(len(filtered), func(i int) bool { return !t.StartsAfter(filtered[i].Hi) })
		return i < len(filtered) && !t.EndsBefore(filtered[i].Lo)
	}
}
