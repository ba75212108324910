package collect

import (
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/values"
)

func TestBatch_CollectsNowUntilItCopiesEnough(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		copyMax   uint64
		copies    []uint64 // bytes of the files 0, 1 and so on; 0 drops a file
		now, next []base.FileNum
	}{
		{"no file", 1, nil, nil, nil},
		{"a rewrite first", 1, []uint64{5, 0, 5}, []base.FileNum{0}, []base.FileNum{1, 2}},
		{"drops first", 1, []uint64{0, 0, 5, 5}, []base.FileNum{0, 1, 2}, []base.FileNum{3}},
		{"drops alone", 1, []uint64{0, 0}, []base.FileNum{0, 1}, nil},
		{"up to the bound", 10, []uint64{5, 4, 5, 0}, []base.FileNum{0, 1, 2}, []base.FileNum{3}},
		{"up to the bound of the collector", 0, []uint64{batchBytes - 1, 1, 1}, []base.FileNum{0, 1}, []base.FileNum{2}},
	} {
		b := Batch{copyMax: c.copyMax}
		for n, copies := range c.copies {
			b.Add(values.Choice{Num: base.FileNum(n), Drop: copies == 0, Copy: copies}, manifest.LiveValues{ValueFile: new(manifest.ValueFile)})
		}
		if now, next := numsOf(b.now), numsOf(b.next); !slices.Equal(now, c.now) || !slices.Equal(next, c.next) {
			t.Errorf("%s: now %v, next %v; want %v, %v", c.name, now, next, c.now, c.next)
		}
	}
}

func numsOf(choices []values.Choice) (nums []base.FileNum) {
	for _, c := range choices {
		nums = append(nums, c.Num)
	}
	return nums
}
