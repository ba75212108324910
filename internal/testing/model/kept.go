package model

import "fmt"

// KeyOnly is what an iterator that leaves the values alone shows of it: in
// place of the value, how long that is.
func (it Item) KeyOnly() Item {
	it.Value = fmt.Sprintf("%d bytes", len(it.Value))
	return it
}

// A database forgets versions that no snapshot needs, so that an iterator over
// all versions shows a part of what this model remembers. What may be missing
// follows from four rules, for one key and a transaction with snapshot S:
//
//  1. The transaction's own write shows.
//  2. The newest version up to S shows if it is live.
//  3. Of all versions, later ones than S included, the newest Map.Versions
//     show, up to the first that is a deletion or has expired, which need not.
//  4. If the newest version up to S is a deletion, or has expired, and does
//     not show, then nothing older does: what was deleted does not come back.
//
// A range deletion is a version of every key that it covers, but shows on none:
// rules 3 and 4 know it, and 4 lets what it hides show.
//
// A value that has expired may show as a deletion with the same number.

// passedOver is what an iterator over all versions has seen of one key.
type passedOver struct {
	key string
	// older: a version of the snapshot shows that is not the newest of it.
	older bool
	// gone: the newest one was passed over.
	gone bool
}

// Reach moves an iterator over all versions on to the item that a database
// shows after the same moves, or to its end if ok is false. It returns an
// error if the iterator is not on the way there, or if something on the way
// must show.
func (it *Iterator) Reach(got Item, ok bool) error {
	for {
		switch {
		case !it.valid && !ok:
			return nil
		case !it.valid:
			return fmt.Errorf("at %v, want its end", got)
		case ok && it.shows(got):
			if err := it.see(); err != nil {
				return err
			}
			it.current = got
			return nil
		}
		if err := it.pass(); err != nil {
			if ok {
				return fmt.Errorf("at %v, want %v: %w", got, it.current, err)
			}
			return fmt.Errorf("at its end, want %v: %w", it.current, err)
		}
		it.Next()
	}
}

// shows reports whether got is how the database may show the current item.
func (it *Iterator) shows(got Item) bool {
	if it.current.ByRange {
		return false
	}
	if got == it.current {
		return true
	}
	buried := Item{it.current.Key, Version{Seq: it.current.Seq, Deleted: true}}
	if it.o.KeysOnly {
		buried = buried.KeyOnly()
	}
	return it.current.Seq != 0 && !it.current.Live(it.t.NowMs) && got == buried
}

// see notes that the current item shows.
func (it *Iterator) see() error {
	p := it.passedOf(it.current.Key)
	if it.current.Seq == 0 || it.newest().Seq == it.current.Seq {
		return nil
	}
	if it.newest().ByRange {
		return nil
	}
	p.older = true
	if p.gone {
		return fmt.Errorf("at %v, but %v, which hides it, does not show", it.current, Item{it.current.Key, it.newest()})
	}
	return nil
}

// pass notes that the current item does not show, or says why it must.
func (it *Iterator) pass() error {
	p := it.passedOf(it.current.Key)
	newest := it.newest().Seq == it.current.Seq
	switch {
	case it.current.ByRange:
		return nil
	case it.current.Seq == 0:
		return fmt.Errorf("it is the transaction's own write")
	case newest && it.current.Live(it.t.NowMs):
		return fmt.Errorf("it is what the snapshot %d sees", it.t.Seq)
	case newest && p.older:
		return fmt.Errorf("it hides what was shown before it")
	case it.counts():
		return fmt.Errorf("it is one of the newest %d versions", it.t.m.Versions)
	}
	p.gone = p.gone || newest
	return nil
}

// passedOf returns what was seen of key, which is nothing if the iterator has
// just come to it.
func (it *Iterator) passedOf(key string) *passedOver {
	if it.passed.key != key {
		it.passed = passedOver{key: key}
	}
	return &it.passed
}

// newest is the newest version of the current key that the snapshot sees.
func (it *Iterator) newest() Version {
	v, _ := it.t.m.Newest(it.current.Key, it.t.Seq)
	return v
}

// counts reports whether the current version is one of those that are kept by
// their number.
func (it *Iterator) counts() bool {
	versions := it.t.m.byKey[it.current.Key].versions
	for n := 1; n <= min(it.t.m.Versions, len(versions)); n++ {
		v := versions[len(versions)-n]
		if !v.Live(it.t.NowMs) {
			return false
		}
		if v.Seq == it.current.Seq {
			return true
		}
	}
	return false
}

// Kept explains how what a database shows of all versions at the snapshot seq,
// ascending, differs from what it may show, or returns the empty string.
func (m *Map) Kept(got []Item, seq, nowMs uint64) string {
	t := m.Begin(seq, false)
	t.NowMs = nowMs
	it := t.Iterator(IterOptions{AllVersions: true})
	for i := range len(got) + 1 {
		it.Next()
		var item Item
		if i < len(got) {
			item = got[i]
		}
		if err := it.Reach(item, i < len(got)); err != nil {
			return fmt.Sprintf("item %d: %v", i, err)
		}
	}
	return ""
}
