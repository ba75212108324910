package stoat

import (
	"strings"
	"testing"
)

func TestOptions_MemtablesTakeTheirShareOfTheBudget(t *testing.T) {
	t.Parallel()
	for budget, want := range map[int64]int64{0: 32 << 20, 64 << 20: 8 << 20, 1 << 20: 128 << 10, 1 << 40: memtableSizeMax} {
		if o := (&Options{MemoryBudget: budget}).withDefaults(); o.MemtableSize != want {
			t.Errorf("a budget of %d gives memtables of %d, want %d", budget, o.MemtableSize, want)
		}
	}
	for _, budget := range []int64{-1, 1, memoryBudgetMin - 1, memoryBudgetMax + 1} {
		o := (&Options{MemoryBudget: budget}).withDefaults()
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), "MemoryBudget") {
			t.Errorf("a budget of %d: %v", budget, err)
		}
	}
}
