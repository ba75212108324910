package values

import (
	"cmp"
	"slices"
)

// An extent is where a record lies.
type extent struct {
	v          *view
	at, length int64
}

// neighbours sorts records in the order of their files. It calls visit with neighbours that
// one request reads, and the bounds of that.
func neighbours(found []extent, visit func(some []extent, from, to int64)) {
	slices.SortFunc(found, func(x, y extent) int {
		if c := cmp.Compare(x.v.num, y.v.num); c != 0 {
			return c
		}
		return cmp.Compare(x.at, y.at)
	})
	for len(found) > 0 {
		n, v, from, to := 1, found[0].v, found[0].at, found[0].at+found[0].length
		for ; n < len(found) && found[n].v == v && found[n].at <= to+prefetchGap; n++ {
			to = max(to, found[n].at+found[n].length)
		}
		visit(found[:n], from, to)
		found = found[n:]
	}
}

// A Fetch reads and verifies many records, in the order of their files. So the device gets
// few large requests, all of them at once. Several goroutines that read a file at once do
// not disturb each other, as they do with Reader.Get.
//
// It only improves speed: Reader.Get reads what a Fetch leaves out, and reports errors. The
// zero value is empty. One goroutine at a time may use a Fetch.
type Fetch struct {
	found []extent
	bytes int64
}

// Add adds the record that p points to in r, unless it is verified.
func (f *Fetch) Add(r *Reader, p *Pointer) {
	v := r.v.Load()
	if v == nil {
		if v, _ = r.mapped(); v == nil {
			return
		}
	}
	at, err := v.place(*p)
	if err != nil || v.marks.has(at) {
		return
	}
	f.found = append(f.found, extent{v, at, p.Length()})
	f.bytes += p.Length()
}

// Bytes returns the length of the added records.
func (f *Fetch) Bytes() int64 { return f.bytes }

// Run reads and verifies the added records, and forgets them.
func (f *Fetch) Run() {
	neighbours(f.found, func(some []extent, from, to int64) {
		if len(some) < len(f.found) {
			_ = some[0].v.m.WillNeed(from, to-from) // only a hint
		}
	})
	neighbours(f.found, func(some []extent, from, to int64) { some[0].v.r.fetchRecords(some, from, to) })
	clear(f.found)
	f.found, f.bytes = f.found[:0], 0
}

// fetchRecords reads [from, to) and verifies records in it. Reader.Get reports errors.
func (r *Reader) fetchRecords(records []extent, from, to int64) {
	v := records[0].v
	if v.sealed != nil && v.sealed.Crowded() {
		return // Reader.Get keeps none of the pages
	}
	r.gauge.Touch()
	brought, err := v.m.Populate(from, to-from)
	if r.gauge.Add(brought, v.end); err != nil {
		return
	}
	for _, x := range records {
		drops := v.drops.Load()
		if r.check(v, x.at, v.data[x.at:x.at+x.length]) == nil {
			v.mark(x.at, drops)
		}
	}
}
