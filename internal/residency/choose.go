package residency

import (
	"cmp"
	"slices"
)

// A Kind says what a file holds.
type Kind uint8

// The kinds, in the order in which they give memory back. A read of a value also
// needs pages of a table, and tables are smaller in total.
const (
	Values Kind = iota
	Tables
)

// A File is a mapped file as Choose sees it.
type File struct {
	Kind       Kind
	Bytes      int64 // bytes in memory
	IdleRounds int32 // rounds without a use
}

// A Limit bounds the memory of mapped files.
type Limit struct {
	Bytes int64
	// IdleMin is the number of rounds without a use after which a file is idle.
	IdleMin int32
	// Strict takes memory from files in use as well.
	Strict bool
}

// Choose returns the indexes of the files that give their memory back, so that
// the others stay within the limit. Unless Strict is set it chooses only idle
// files. It chooses files unused for the longest time first, values before
// tables, and large files before small ones.
func Choose(files []File, limit Limit) []int {
	over := -limit.Bytes
	var may []int
	for i := range files {
		over += files[i].Bytes
		if files[i].Bytes > 0 && (limit.Strict || files[i].IdleRounds >= limit.IdleMin) {
			may = append(may, i)
		}
	}
	if over <= 0 {
		return nil
	}
	slices.SortStableFunc(may, func(i, j int) int {
		a, b := &files[i], &files[j]
		return cmp.Or(cmp.Compare(b.IdleRounds, a.IdleRounds), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Bytes, a.Bytes))
	})
	n := 0
	for ; n < len(may) && over > 0; n++ {
		over -= files[may[n]].Bytes
	}
	return may[:n]
}
