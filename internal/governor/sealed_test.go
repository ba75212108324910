package governor

import (
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/residency"
)

func TestChooseSealed_TakesFilesInUseWhenTheMemoryIsFull(t *testing.T) {
	t.Parallel()
	files := []residency.File{
		{Kind: residency.Tables, Bytes: 300},
		{Kind: residency.Values, Bytes: 200, IdleRounds: 3},
		{Kind: residency.Tables, Bytes: 100, IdleRounds: 7},
		{Kind: residency.Values, Bytes: 100},
	}
	for _, c := range []struct {
		pages, others, limit int64
		want                 []int
	}{
		{pages: 700, limit: 800},                                         // seven eighths are allowed
		{pages: 701, others: 1, limit: 800, want: []int{2, 1}},           // down to three quarters
		{pages: 800, others: 100, limit: 800, want: []int{2, 1}},         // exactly
		{pages: 901, others: 201, limit: 800, want: []int{2, 1, 3}},      // values in use before tables
		{pages: 5000, others: 4300, limit: 800, want: []int{2, 1, 3, 0}}, // nothing helps
	} {
		if got := chooseSealed(files, c.pages, c.others, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%d bytes, %d of others, limit %d: %v, want %v", c.pages, c.others, c.limit, got, c.want)
		}
	}
}
