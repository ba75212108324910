package manifest

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestValueRefs_GiveBackWhatTheyHold(t *testing.T) {
	t.Parallel()
	for _, want := range [][]ValueRef{
		nil, {{1, 1}}, {{1, 127}, {2, 128}}, {{300, 1 << 14}, {301, 1}, {1 << 40, numberMax}},
		// Apply refuses these, so an edit must be able to hold them.
		{{9, 0}, {3, 1}, {3, math.MaxUint64}},
	} {
		refs := ValueRefsOf(want...)
		sum := uint64(0)
		for _, ref := range want {
			sum += ref.Bytes
		}
		if got := slices.Collect(refs.All()); !slices.Equal(got, want) || refs.Len() != len(want) || refs.bytes != sum {
			t.Errorf("%v: got %v, %d references to %d bytes", want, got, refs.Len(), refs.bytes)
		}
		if len(want) == 0 {
			continue
		}
		edit := bytes.Clone(refs.encoded)
		decoded, err := decodeValueRefs(edit, 0)
		must(t, err)
		clear(edit) // a reader uses its memory again
		if !reflect.DeepEqual(decoded, refs) {
			t.Errorf("%v: decoded %+v, want %+v", want, decoded, refs)
		}
	}
}

func TestValueRefs_AnIterationCanEndEarly(t *testing.T) {
	t.Parallel()
	for ref := range ValueRefsOf(ValueRef{5, 1}, ValueRef{7, 2}).All() {
		if ref != (ValueRef{5, 1}) {
			t.Fatalf("got %v after the end", ref)
		}
		break
	}
}

// Tables of large databases refer to nearly every value file. Their references must be small,
// as each version of the tree holds them in memory.
func TestValueRefs_OfATableOfALargeDatabaseTakeLittle(t *testing.T) {
	t.Parallel()
	var refs []ValueRef
	for file := range base.FileNum(10_000) {
		refs = append(refs, ValueRef{100 + 2*file, 12 << 10})
	}
	if n := len(ValueRefsOf(refs...).encoded); n > 3*len(refs)+2 {
		t.Errorf("%d references take %d bytes", len(refs), n)
	}
}

func TestValueRefs_OfOlderDatabasesAreRead(t *testing.T) {
	t.Parallel()
	table := tableAt(1, 2, "a", "b", ValueRef{3, 4}, ValueRef{5, 1 << 40})
	for _, table.Jumps = range []uint64{0, 7} {
		with := appendTable(nil, table)
		bare := *table
		bare.Values, bare.Jumps = ValueRefs{}, 0
		old := appendTable(nil, &bare)
		for ref := range table.Values.All() {
			old = binary.LittleEndian.AppendUint64(old, uint64(ref.File))
			old = binary.LittleEndian.AppendUint64(old, ref.Bytes)
		}
		if table.Jumps > 0 {
			old = binary.LittleEndian.AppendUint64(old, table.Jumps)
		}
		got, err := decodeTable(old, 0)
		must(t, err)
		if next := appendTable(nil, got); !bytes.Equal(next, with) {
			t.Errorf("%d jumps: an older table becomes %x, want %x", table.Jumps, next, with)
		}
	}
}
