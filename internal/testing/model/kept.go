package model

import "fmt"

// KeyOnly returns the item as a key-only iterator shows it: with the length of
// the value in place of the value.
func (it Item) KeyOnly() Item {
	it.Value = fmt.Sprintf("%d bytes", len(it.Value))
	return it
}

// keyState is what an iterator over all versions has met of one key.
type keyState struct {
	key string
	// older: a version showed that is not the newest of the snapshot.
	older bool
	// gone: the newest version did not show.
	gone bool
}

// Reach moves an iterator over all versions to the item that a database shows after the
// same moves. If ok is false, it moves the iterator to its end. It returns an error if the
// iterator does not reach the item, or if an item before it must show.
//
// A database drops versions that no snapshot needs. So an iterator over all
// versions shows a part of what this model remembers. Four rules say what may be
// missing, for one key and a transaction with snapshot S:
//
//  1. The transaction's own write shows.
//  2. The newest version up to S shows if it is live.
//  3. The newest Map.Versions of all versions, later ones than S included,
//     show, up to the first that is a deletion or has expired. That one
//     need not show. Neither need one that was not among the newest ones of
//     a time when Map.Versions was lower.
//  4. If the newest version up to S is a deletion, or has expired, and does
//     not show, then nothing older does. Deleted values do not come back.
//
// A range deletion is a version of every key that it covers, but the iterator
// does not show it. Rules 3 and 4 take it into account; by rule 4 the versions
// that it hides may show.
//
// An expired value may show as a deletion with the same number.
func (it *Iterator) Reach(got Item, ok bool) error {
	for {
		switch {
		case !it.valid && !ok:
			return nil
		case !it.valid:
			return fmt.Errorf("at %v, want its end", got)
		case ok && it.shows(got):
			if err := it.noteShown(); err != nil {
				return err
			}
			it.current = got
			return nil
		}
		if err := it.noteHidden(); err != nil {
			if ok {
				return fmt.Errorf("at %v, want %v: %w", got, it.current, err)
			}
			return fmt.Errorf("at its end, want %v: %w", it.current, err)
		}
		it.advance()
	}
}

// shows reports whether the database may show the current item as got.
func (it *Iterator) shows(got Item) bool {
	if it.current.ByRange {
		return false
	}
	if got == it.current {
		return true
	}
	asDeletion := Item{it.current.Key, Version{Seq: it.current.Seq, Deleted: true}}
	if it.o.KeysOnly {
		asDeletion = asDeletion.KeyOnly()
	}
	// Jobs may drop an expired value on which only the transaction's own steps lie.
	stored := it.current.Seq != 0 || it.t.pending[it.current.Key].Steps != nil
	return stored && !it.current.Live(it.t.NowMs) && got == asDeletion
}

// noteShown records that the current item shows.
func (it *Iterator) noteShown() error {
	p := it.stateOf(it.current.Key)
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

// noteHidden records that the current item does not show, or says why it must.
func (it *Iterator) noteHidden() error {
	p := it.stateOf(it.current.Key)
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

// stateOf returns the state of key, which is empty if the iterator has just
// arrived there.
func (it *Iterator) stateOf(key string) *keyState {
	if it.hidden.key != key {
		it.hidden = keyState{key: key}
	}
	return &it.hidden
}

// newest returns the newest version of the current key that the snapshot sees.
func (it *Iterator) newest() Version {
	v, _ := it.t.m.Newest(it.current.Key, it.t.Seq)
	return v
}

// counts reports whether the current version is among the newest Map.Versions,
// up to the first that is not live.
func (it *Iterator) counts() bool {
	versions := it.t.m.byKey[it.current.Key].versions
	for n := 1; n <= min(it.t.m.Versions, len(versions)); n++ {
		v := versions[len(versions)-n]
		if !v.Live(it.t.NowMs) {
			return false
		}
		if v.Seq == it.current.Seq {
			return it.t.m.survived(versions, len(versions)-n)
		}
	}
	return false
}

// survived reports whether the version at index i counted at each time when the
// database kept fewer versions.
func (m *Map) survived(versions []Version, i int) bool {
	for _, f := range m.fewer {
		newer := 0
		for _, v := range versions[i+1:] {
			if v.Seq <= f.last {
				newer++
			}
		}
		if versions[i].Seq <= f.last && newer >= f.versions {
			return false
		}
	}
	return true
}

// Kept checks what a database shows of all versions at the snapshot seq,
// ascending. It explains the first difference from what may show, or returns "".
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
