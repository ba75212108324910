package schedules

import (
	"bytes"

	"github.com/stoatdb/stoat"
)

// Half of the values in a schedule with filters are written with the sign of what is
// unsettled. The filter rewrites them with the sign of what is settled, at a time that no
// test knows. So comparisons look through the difference.
const (
	signUnsettled = '~'
	signSettled   = '='
)

// A settler is the filter. It counts the values that it rewrites.
type settler struct{ rewrites *int }

// Name implements stoat.Filter.
func (settler) Name() string { return "settler" }

// Filter implements stoat.Filter.
func (s settler) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	b, err := v.Bytes()
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
