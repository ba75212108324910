package residency

import (
	"cmp"
	"slices"
)

// A Kind says what a file holds.
type Kind uint8

// The kinds, those first that give memory back first: a read of a value needs
// pages of a table, too, and tables are the smaller part.
const (
	Values Kind = iota
	Tables
)

// A File is a mapped file as Choose sees it.
type File struct {
	Kind  Kind
	Bytes int64 // in memory
	Rest  int32 // rounds without a use
}

// A Limit is what memory mapped files may take.
type Limit struct {
	Bytes int64
	// RestMin is from how many rounds without a use on a file is idle.
	RestMin int32
	// Strict takes memory from files in use as well.
	Strict bool
}

// Choose returns which of the files give their memory back, by their indexes,
// so that the others keep to the limit as far as it is allowed to ask them:
// those first that have not been used for the longest time, values before
// tables, large ones before small ones.
func Choose(files []File, limit Limit) []int {
	over := -limit.Bytes
	var may []int
	for i := range files {
		over += files[i].Bytes
		if files[i].Bytes > 0 && (limit.Strict || files[i].Rest >= limit.RestMin) {
			may = append(may, i)
		}
	}
	if over <= 0 {
		return nil
	}
	slices.SortStableFunc(may, func(i, j int) int {
		a, b := &files[i], &files[j]
		return cmp.Or(cmp.Compare(b.Rest, a.Rest), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Bytes, a.Bytes))
	})
	n := 0
	for ; n < len(may) && over > 0; n++ {
		over -= files[may[n]].Bytes
	}
	return may[:n]
}
