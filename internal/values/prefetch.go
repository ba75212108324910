package values

import (
	"cmp"
	"slices"
)

const (
	// prefetchBatch is how many pointers are sorted at once, in place.
	prefetchBatch = 64
	// prefetchGap is how far apart two records may lie that are fetched by one
	// request. What lies between costs less than another request.
	prefetchGap = 16 << 10
)

// Prefetch starts reading the records that pointers lead to, without waiting,
// in the order of the file. Records that were verified are taken for present,
// and pointers that lead nowhere are left to Get to report. Prefetch of more
// than a fetch of the device is worth its cost only for cold files.
func (r *Reader) Prefetch(pointers []Pointer) error {
	v, err := r.mapped()
	if err != nil {
		return err
	}
	for len(pointers) > 0 {
		n := min(len(pointers), prefetchBatch)
		if err := v.prefetch(pointers[:n]); err != nil {
			return err
		}
		pointers = pointers[n:]
	}
	return nil
}

// An extent is a part of the file.
type extent struct{ from, to int64 }

func (v *view) prefetch(pointers []Pointer) error {
	var room [prefetchBatch]extent
	found := room[:0]
	for _, p := range pointers {
		if at, err := v.place(p); err == nil && !v.marks.has(at) {
			found = append(found, extent{at, at + p.Length})
		}
	}
	slices.SortFunc(found, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	for i := 0; i < len(found); {
		e := found[i]
		for i++; i < len(found) && found[i].from <= e.to+prefetchGap; i++ {
			e.to = max(e.to, found[i].to)
		}
		if err := v.m.WillNeed(e.from, e.to-e.from); err != nil {
			return err
		}
	}
	return nil
}
