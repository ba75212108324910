package schedules

import (
	"bytes"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// Half of the values in a schedule with filters are written with the sign of what is
// unsettled. The filter rewrites them with the sign of what is settled, at a time that no
// test knows. So comparisons look through the difference.
//
// One key also gets values with the sign of what is doomed, which the filter drops at such
// a time. For the model they are deletions, and comparisons pass over them. So a reader may
// see a doomed value or nothing, and never an older value.
const (
	signUnsettled = '~'
	signSettled   = '='
	signDoomed    = '!'
)

// doomedKey is the key with doomed values. It is among the other keys, and no transaction
// merges into it or renews it: a step on a doomed value is not one on a deletion.
const doomedKey = "dd"

// A settler is the filter. It counts the values that it rewrites and drops.
type settler struct{ rewrites, drops *int }

// Name implements stoat.Filter.
func (settler) Name() string { return "settler" }

// Filter implements stoat.Filter.
func (s settler) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	b, err := v.Bytes()
	if err == nil && doomed(b) {
		*s.drops++
		return stoat.FilterDrop, nil
	}
	if err != nil || !bytes.ContainsRune(b, signUnsettled) {
		return stoat.FilterKeep, nil
	}
	*s.rewrites++
	return stoat.FilterRewrite, []byte(settled(b))
}

// settled returns a value as it is after the filter.
func settled(value []byte) string {
	return string(bytes.ReplaceAll(value, []byte{signUnsettled}, []byte{signSettled}))
}

// unsettled returns the form in which a schedule writes a new value.
func (w *scheduleWorld) unsettled(value string) []byte {
	if !w.filters || w.values%2 == 0 {
		return []byte(value)
	}
	return bytes.ReplaceAll([]byte(value), []byte{signSettled}, []byte{signUnsettled})
}

// doomed reports whether the filter drops a value.
func doomed(value []byte) bool { return bytes.ContainsRune(value, signDoomed) }

// setDoomed sets a value that the filter drops.
func (t *scheduleTxn) setDoomed(size int) error {
	v := t.w.value(doomedKey, size)
	t.mt.Write(doomedKey, model.Version{Deleted: true})
	return t.tx.Set([]byte(doomedKey), bytes.ReplaceAll([]byte(v), []byte{signSettled}, []byte{signDoomed}))
}

// doomSomething does one thing to the key with doomed values.
func (t *scheduleTxn) doomSomething(rng *rand.Rand) error {
	switch n := rng.IntN(8); {
	case n < 3:
		return t.setDoomed(anyLength(rng))
	case n < 6:
		return t.set(doomedKey, anyLength(rng))
	case n < 7:
		return t.delete(doomedKey)
	}
	return t.get(doomedKey)
}
