package partial

import (
	"reflect"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestRestamp_RaisesTheTimesOfAllSteps(t *testing.T) {
	t.Parallel()
	const early, late = 1_700_000_000_000, 1_700_000_000_500
	value := AppendRenewal(nil, early, 5)
	value = AppendOperand(value, late+1, []byte("operand"))
	value = AppendOperand(value, early, []byte{})
	value = AppendRenewal(value, 7, late) // a clock that starts near 1970
	Restamp(value, late)
	got, err := Decode(nil, base.KindMerge, value)
	want := []Step{{TimeMs: late, Expires: 5}, {TimeMs: late + 1, Operand: []byte("operand")},
		{TimeMs: late, Operand: []byte{}}, {TimeMs: late, Expires: late}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
