package compact

import (
	"fmt"
	"math"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

func TestPickGathering_TakesTheFirstScatteredTables(t *testing.T) {
	t.Parallel()
	g := Gathering{Share: 0.5, PointersMin: 10, RecordMax: 1000, Bytes: 250_000}
	// Each table has pointers, jumps and bytes of values.
	type of struct{ pointers, jumps, bytes uint64 }
	in, out, huge := of{100, 1, 100_000}, of{100, 99, 100_000}, of{1000, 999, 1_000_000}
	for _, c := range []struct {
		name   string
		tables []of
		want   string
		gather uint64
	}{
		{"nothing", nil, "[]", 0},
		{"in order", []of{in, in}, "[]", 0},
		{"long values", []of{{100, 99, 200_000}}, "[]", 0},
		{"few values", []of{{9, 8, 9000}}, "[]", 0},
		{"one of three", []of{in, out, in}, "[2]", math.MaxInt64},
		{"neighbours", []of{in, out, out, in, out}, "[2 3]", math.MaxInt64},
		{"as many as may be moved", []of{out, out, out, out}, "[1 2]", math.MaxInt64},
		{"a part of a large one", []of{in, huge, huge}, "[2]", 250_000},
		{"a little too large", []of{{300, 299, 300_000}}, "[1]", math.MaxInt64},
	} {
		var v manifest.Version
		for i, o := range c.tables {
			key := []byte(fmt.Sprint(i))
			v.Levels[last] = append(v.Levels[last], &manifest.Table{
				Num: base.FileNum(i + 1), Level: last, Size: 1000, Smallest: key, Largest: key, Entries: o.pointers,
				Pointers: o.pointers, Jumps: o.jumps, Values: manifest.ValueRefsOf(manifest.ValueRef{File: 9, Bytes: o.bytes})})
		}
		plan, due := PickGathering(&v, Shape{}, g)
		nums := []base.FileNum{}
		for _, table := range plan.Inputs[last] {
			nums = append(nums, table.Num)
		}
		if got := fmt.Sprint(nums); got != c.want || plan.Gather != c.gather || due != (c.want != "[]") {
			t.Errorf("%s: tables %s, %d bytes, want %s, %d", c.name, got, plan.Gather, c.want, c.gather)
		}
		if due && (!plan.Bottom || plan.Move || plan.Drop || plan.OutputLevel != last) {
			t.Errorf("%s: %+v", c.name, plan)
		}
	}
}

func TestPickGathering_TakesLessScatteredAndLongerValuesOfScannedTables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		jumps, bytes   uint64 // of a hundred pointers
		scanned, asked bool
		want           bool
	}{
		{"scattered, not scanned", 99, 100_000, false, true, true},
		{"scattered, and no iterator is counted", 99, 100_000, false, false, true},
		{"less scattered, scanned", 90, 100_000, true, true, true},
		{"less scattered, not scanned", 90, 100_000, false, true, false},
		{"less scattered, and no iterator is counted", 90, 100_000, true, false, false},
		{"nearly in order, scanned", 89, 100_000, true, true, false},
		{"long values, scanned", 99, 2_000_000, true, true, true},
		{"long values, not scanned", 99, 2_000_000, false, true, false},
		{"longer values, scanned", 99, 2_000_100, true, true, false},
	} {
		m := &manifest.Table{Num: 1, Level: last, Size: 1000, Smallest: []byte("a"), Largest: []byte("b"), Entries: 100,
			Pointers: 100, Jumps: c.jumps, Values: manifest.ValueRefsOf(manifest.ValueRef{File: 9, Bytes: c.bytes})}
		var v manifest.Version
		v.Levels[last] = []*manifest.Table{m}
		g := Gathering{Share: 0.99, PointersMin: 64, RecordMax: 4000, ScannedShare: 0.9, ScannedRecordMax: 20_000, Bytes: 1 << 30}
		if c.asked {
			g.Scanned = func(t *manifest.Table) bool { return t == m && c.scanned }
		}
		if _, due := PickGathering(&v, Shape{}, g); due != c.want {
			t.Errorf("%s: due %t, want %t", c.name, due, c.want)
		}
	}
}

// A gathering that ends early, because a commit arrives, reads the rest of its tables all the
// same, while no other merge can run. What it has done is lost if the database is closed.
func TestPickGathering_ReadsNoMoreThanAnotherMerge(t *testing.T) {
	t.Parallel()
	const inputMax = 256 << 20
	var v manifest.Version
	for i := range 100 {
		key := fmt.Appendf(nil, "%03d", i)
		v.Levels[last] = append(v.Levels[last], &manifest.Table{
			Num: base.FileNum(i + 1), Level: last, Size: 32 << 20, Smallest: key, Largest: key, Entries: 1 << 20,
			Pointers: 1 << 20, Jumps: 1 << 20, Values: manifest.ValueRefsOf(manifest.ValueRef{File: 9, Bytes: 1 << 30})})
	}
	g := Gathering{Share: 0.99, PointersMin: 64, RecordMax: 4 << 10, Bytes: 1 << 40}
	plan, due := PickGathering(&v, Shape{InputMax: inputMax}, g)
	if n := plan.InputBytes(); !due || n == 0 || n > inputMax {
		t.Errorf("due %t: a gathering reads %d MiB of tables, want %d at most", due, n>>20, inputMax>>20)
	}
}
