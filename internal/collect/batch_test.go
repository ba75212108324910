package collect

import (
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/values"
)

func TestBatch_ShortenLeavesTheFilesUpToTheFirstRewrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		drops     []bool // of the files 0, 1 and so on
		now, next []base.FileNum
	}{
		{"no file", nil, nil, []base.FileNum{9}},
		{"a rewrite first", []bool{false, true, false}, []base.FileNum{0}, []base.FileNum{1, 2, 9}},
		{"drops first", []bool{true, true, false, false}, []base.FileNum{0, 1, 2}, []base.FileNum{3, 9}},
		{"drops alone", []bool{true, true}, []base.FileNum{0}, []base.FileNum{1, 9}},
	} {
		b := Batch{next: []values.Choice{{Num: 9}}}
		for n, drop := range c.drops {
			b.now = append(b.now, values.Choice{Num: base.FileNum(n), Drop: drop})
		}
		b.Shorten()
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
