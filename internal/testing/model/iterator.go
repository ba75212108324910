package model

import "slices"

// IterOptions choose what an iterator shows, as the database's options of the
// same names do.
type IterOptions struct {
	Lower   string
	Upper   string
	Bounded bool // whether Upper applies
	Prefix  string

	Reverse     bool
	AllVersions bool
	// KeysOnly shows the length of a value in place of the value: see KeyOnly.
	KeysOnly bool
	Since    uint64
}

// An Iterator iterates over a transaction's snapshot and its own writes. It
// shows the own writes as they were when it was last positioned.
type Iterator struct {
	t       *Txn
	o       IterOptions
	back    bool // the direction now
	bounds  span
	own     []Write
	deleted []span // ranges that the transaction has deleted
	current Item
	valid   bool
	// queue holds the rest of the current key's versions.
	queue  []Item
	hidden keyState

	reading bool
	// The beginning of the range being read: forward from start, backward from
	// end.
	start string
	end   bound
}

// Iterator returns an unpositioned iterator.
func (t *Txn) Iterator(o IterOptions) *Iterator {
	it := &Iterator{t: t, o: o, back: o.Reverse, bounds: span{lo: o.Lower, hi: bound{o.Upper, o.Bounded}}}
	if o.Prefix != "" {
		it.bounds.lo = max(it.bounds.lo, o.Prefix)
		if end := PrefixEnd(o.Prefix); end != "" {
			it.bounds.hi = lower(it.bounds.hi, end)
		}
	}
	t.open = append(t.open, it)
	return it
}

// lower returns the lower of b and key.
func lower(b bound, key string) bound {
	if b.set && b.key <= key {
		return b
	}
	return bound{key, true}
}

// PrefixEnd returns the first key after all keys that start with p, or "" if
// there is none.
func PrefixEnd(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			return p[:i] + string([]byte{p[i] + 1})
		}
	}
	return ""
}

// First moves to the first item in the direction of iteration.
func (it *Iterator) First() bool {
	it.position(it.o.Reverse, it.bounds.lo, it.bounds.hi)
	return it.valid
}

// Last moves to the last item in the direction of iteration.
func (it *Iterator) Last() bool {
	it.position(!it.o.Reverse, it.bounds.lo, it.bounds.hi)
	return it.valid
}

// Seek moves to the first item with a key >= key, or in reverse to the last with
// a key <= key.
func (it *Iterator) Seek(key string) bool {
	it.position(it.o.Reverse, max(key, it.bounds.lo), lower(it.bounds.hi, after(key)))
	return it.valid
}

func (it *Iterator) position(back bool, start string, end bound) {
	it.noteRange()
	it.own, it.deleted = it.t.byKey(), it.t.deleted
	it.begin(back, start, end)
}

// begin moves to the first item of a range, in a direction.
func (it *Iterator) begin(back bool, start string, end bound) {
	it.reading, it.back, it.start, it.end, it.queue = true, back, start, end, nil
	it.hidden = keyState{}
	if back {
		it.previous(end)
	} else {
		it.next(start)
	}
}

// Next moves to the next item, or to the first if the iterator is unpositioned.
func (it *Iterator) Next() bool { return it.step(it.o.Reverse) }

// Prev moves to the previous item, or to the last if the iterator is unpositioned.
func (it *Iterator) Prev() bool { return it.step(!it.o.Reverse) }

func (it *Iterator) step(back bool) bool {
	switch {
	case !it.reading:
		it.position(back, it.bounds.lo, it.bounds.hi)
	case back != it.back:
		it.turn()
	default:
		it.advance()
	}
	return it.valid
}

// turn moves to the next item in the other direction.
func (it *Iterator) turn() {
	it.noteRange()
	if !it.valid {
		it.begin(!it.back, it.bounds.lo, it.bounds.hi)
		return
	}
	at := it.current
	it.reading, it.back, it.start, it.end = true, !it.back, at.Key, bound{after(at.Key), true}
	it.hidden = keyState{}
	items := it.itemsOf(at.Key)
	i := slices.IndexFunc(items, func(i Item) bool { return i.Seq == at.Seq && i.ByRange == at.ByRange })
	it.queue = items[i+1:]
	it.advance()
}

// advance moves to the next item in the direction now.
func (it *Iterator) advance() {
	switch {
	case !it.valid:
	case len(it.queue) > 0:
		it.current, it.queue = it.queue[0], it.queue[1:]
	case it.back:
		it.previous(bound{it.current.Key, true})
	default:
		it.next(after(it.current.Key))
	}
}

// Valid reports whether the iterator is at an item.
func (it *Iterator) Valid() bool { return it.valid }

// Item returns the current item.
func (it *Iterator) Item() Item { return it.current }

// next moves to the first item with a key >= from.
func (it *Iterator) next(from string) {
	m, i, j := it.t.m, it.t.m.search(from), ownIndex(it.own, from)
	for {
		key, ok := "", false
		if i < len(m.sorted) {
			key, ok = m.sorted[i].key, true
		}
		if j < len(it.own) && (!ok || it.own[j].Key <= key) {
			if ok && it.own[j].Key == key {
				i++
			}
			key, ok = it.own[j].Key, true
			j++
		} else {
			i++
		}
		if !ok || !it.bounds.hi.admits(key) {
			it.valid = false
			return
		}
		if it.show(key) {
			return
		}
	}
}

// previous moves to the last item with a key below the bound.
func (it *Iterator) previous(below bound) {
	m := it.t.m
	i, j := len(m.sorted), len(it.own)
	if below.set {
		i, j = m.search(below.key), ownIndex(it.own, below.key)
	}
	for {
		key, ok := "", false
		if i > 0 {
			key, ok = m.sorted[i-1].key, true
		}
		if j > 0 && (!ok || it.own[j-1].Key >= key) {
			if ok && it.own[j-1].Key == key {
				i--
			}
			key, ok = it.own[j-1].Key, true
			j--
		} else {
			i--
		}
		if !ok || key < it.bounds.lo {
			it.valid = false
			return
		}
		if it.show(key) {
			return
		}
	}
}

// show makes key the current key if it has anything to show.
func (it *Iterator) show(key string) bool {
	items := it.itemsOf(key)
	if len(items) == 0 {
		return false
	}
	it.current, it.queue, it.valid = items[0], items[1:], true
	return true
}

// itemsOf returns what the iterator shows of one key, in its order.
func (it *Iterator) itemsOf(key string) []Item {
	t := it.t
	var items []Item // newest first
	if j := ownIndex(it.own, key); j < len(it.own) && it.own[j].Key == key {
		items = append(items, Item{key, t.whole(key, it.own[j].Version)})
	}
	if h := t.m.byKey[key]; h != nil && (it.o.AllVersions || !holds(it.deleted, key)) {
		for i := len(h.versions) - 1; i >= 0; i-- {
			v := h.versions[i]
			if v.Seq > t.Seq {
				continue
			}
			if v.Seq <= it.o.Since {
				if len(items) == 0 && !it.o.AllVersions {
					return nil // the newest version is too old to be shown
				}
				break
			}
			items = append(items, Item{key, v})
			if !it.o.AllVersions {
				break
			}
		}
	}
	if !it.o.AllVersions {
		if len(items) == 0 || !items[0].Live(t.NowMs) {
			return nil
		}
		items = items[:1]
	}
	if it.back {
		slices.Reverse(items)
	}
	if it.o.KeysOnly {
		for i := range items {
			items[i] = items[i].KeyOnly()
		}
	}
	return items
}

// noteRange records the keys that the iterator moved over since the last
// positioning as read by the transaction.
func (it *Iterator) noteRange() {
	if !it.reading {
		return
	}
	it.reading = false
	if !it.t.write {
		return
	}
	s := span{it.start, it.bounds.hi}
	switch {
	case it.back && it.valid:
		s = span{it.current.Key, it.end}
	case it.back:
		s = span{it.bounds.lo, it.end}
	case it.valid:
		s.hi = bound{after(it.current.Key), true}
	}
	it.t.ranges = append(it.t.ranges, s)
}

// Close ends the iterator.
func (it *Iterator) Close() {
	it.noteRange()
	it.t.open = slices.DeleteFunc(it.t.open, func(o *Iterator) bool { return o == it })
}
