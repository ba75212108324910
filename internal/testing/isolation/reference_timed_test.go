package isolation

import "slices"

// getAt is Get at the timestamp of t. The caller holds the store's mutex.
func (t *refTx) getAt(key string) (Item, bool) {
	versions := t.versionsOf(key)
	read := span{stamped(key, t.time), ofKey(key).hi}
	if len(versions) > 0 {
		read.hi = stamped(key, versions[0].At) + "\x00"
	}
	t.note(read)
	return t.latest(key, versions)
}

// versionsOf returns all versions of a key up to the timestamp of t, the latest first.
func (t *refTx) versionsOf(key string) (items []Item) {
	for _, stored := range t.candidates(Query{Lo: key, Hi: ofKey(key).hi}) {
		name, at := unstamped(stored)
		if at > t.time {
			continue
		}
		it := Item{Key: name, At: at}
		if w, own := t.own.get(stored); own {
			if _, listed := t.own.keys[stored]; listed {
				it.Value, it.Deleted = w.value, w.deleted
				items = append(items, it)
			}
			continue
		}
		for _, v := range slices.Backward(t.store.versions[stored]) {
			if v.seq > t.seq {
				continue
			}
			if !v.gone {
				it.Value, it.Version, it.Deleted = v.value, v.seq, v.deleted
				items = append(items, it)
			}
			break
		}
	}
	return items
}

// latest returns the first of versions, unless it is a deletion.
func (t *refTx) latest(key string, versions []Item) (Item, bool) {
	if t.store.bug == deletionsPassed {
		versions = slices.DeleteFunc(versions, func(it Item) bool { return it.Deleted })
	}
	if len(versions) == 0 {
		return Item{Key: key}, false
	}
	first := versions[0]
	if t.store.bug == earliestShown {
		first = versions[len(versions)-1]
	}
	return first, !first.Deleted
}

// scanAt is Scan at the timestamp of t.
func (t *refTx) scanAt(q Query) (items []Item, exhausted bool) {
	var keys []string
	for _, stored := range t.candidates(Query{Lo: q.Lo, Hi: q.Hi}) {
		key, _ := unstamped(stored)
		keys = append(keys, key)
	}
	for _, key := range slices.Compact(keys) {
		versions := t.versionsOf(key)
		if q.All {
			items = append(items, versions...)
		} else if it, found := t.latest(key, versions); found {
			items = append(items, it)
		}
	}
	if q.Reverse {
		slices.Reverse(items)
	}
	if q.KeysOnly {
		for i := range items {
			items[i].Value = ""
		}
	}
	exhausted = true
	if q.Limit != 0 && len(items) >= q.Limit {
		items, exhausted = items[:q.Limit], false
	}
	t.noteScan(q, items, exhausted)
	return items, exhausted
}
