package isolation

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// A version is one committed value of one key, or of one key at one timestamp.
type version struct {
	seq   uint64
	value string
	// deleted says that there is no value. At a timestamp, the version then hides the
	// earlier timestamps of the key. If it is gone, it hides nothing.
	deleted, gone bool
}

// A row is a key with all its versions, oldest first. At timestamps, key is stamped.
type row struct {
	key      string
	versions []version
}

// at returns the version of the row that a snapshot at seq shows, with deletions.
func (r *row) at(seq uint64) (version, bool) {
	n := sort.Search(len(r.versions), func(i int) bool { return r.versions[i].seq > seq })
	if n == 0 || r.versions[n-1].gone {
		return version{}, false
	}
	return r.versions[n-1], true
}

// A span is the keys of [lo, hi). An empty hi means no end.
type span struct{ lo, hi string }

// ofKey is the span of one key, at all timestamps.
func ofKey(key string) span { return span{key, key + afterStamps} }

func (s span) holds(key string) bool { return key >= s.lo && (s.hi == "" || key < s.hi) }

// meets reports whether a key could lie in both spans.
func (s span) meets(o span) bool {
	end := s.hi
	if end == "" || o.hi != "" && o.hi < end {
		end = o.hi
	}
	return end == "" || max(s.lo, o.lo) < end
}

// A write is what a transaction writes to one key: a value, a deletion, or operands for
// what is there.
type write struct {
	deleted  bool
	partial  bool // there is no value, but operands. None of them is a renewal.
	value    string
	operands []string
}

// over returns the version that the write makes of one before it, which is there if ok.
func (w *write) over(below version, ok, counts bool) version {
	switch {
	case !w.partial:
		return version{value: w.value, deleted: w.deleted}
	case ok && !below.deleted:
		return version{value: merged(counts, below.value, w.operands)}
	}
	return version{value: merged(counts, "", w.operands), deleted: len(w.operands) == 0}
}

// A pending is the set of writes that a transaction will commit.
type pending struct {
	counts bool // History.Counts
	keys   map[string]write
	// ranges are deleted, except for the entries of keys, which are later.
	ranges []span
}

func newPending(counts bool) *pending { return &pending{counts: counts, keys: make(map[string]write)} }

func (p *pending) apply(op *Op) {
	key := op.stored()
	switch op.Kind {
	case OpSet:
		p.keys[key] = write{value: op.Value}
	case OpDelete:
		p.keys[key] = write{deleted: true}
	case OpDeleteRange:
		s := span{op.Query.Lo, op.Query.Hi}
		maps.DeleteFunc(p.keys, func(key string, _ write) bool { return s.holds(key) })
		p.ranges = append(p.ranges, s)
	case OpMerge:
		p.step(key, op.Value)
	case OpRenew:
		p.step(key)
	}
}

// step adds operands to what the transaction has written for a key. None is a renewal.
func (p *pending) step(key string, operands ...string) {
	own, ok := p.get(key)
	if !ok || own.partial {
		p.keys[key] = write{partial: true, operands: slices.Concat(own.operands, operands)}
		return
	}
	w := write{partial: true, operands: operands}
	if v := w.over(version{value: own.value, deleted: own.deleted}, true, p.counts); !v.deleted {
		p.keys[key] = write{value: v.value}
	}
}

// get returns what the transaction writes to the key, and whether it does.
func (p *pending) get(key string) (w write, ok bool) {
	if w, ok = p.keys[key]; ok {
		return w, true
	}
	return write{deleted: true}, slices.ContainsFunc(p.ranges, func(s span) bool { return s.holds(key) })
}

// version returns what the transaction makes of a version of the key, and whether there
// is one. A transaction that writes nothing to the key leaves it.
func (p *pending) version(key string, below version, ok bool) (version, bool) {
	w, written := p.get(key)
	if !written {
		return below, ok
	}
	v := w.over(below, ok, p.counts)
	if _, listed := p.keys[key]; !listed {
		v.gone = true
	}
	return v, !v.gone
}

// states holds every state of a history.
type states struct {
	rows  []*row
	byKey map[string]*row
}

func newStates(h *History) *states {
	s := &states{byKey: make(map[string]*row)}
	for _, it := range h.Initial {
		r := s.row(it.stored(h.Timed))
		r.versions = append(r.versions, version{seq: it.Version, value: it.Value, deleted: it.Deleted})
	}
	return s
}

// row returns the row of a key. It creates the row if necessary.
func (s *states) row(key string) *row {
	r := s.byKey[key]
	if r == nil {
		r = &row{key: key}
		s.byKey[key] = r
		s.rows = append(s.rows, r)
	}
	return r
}

// commit adds the writes of a transaction. Before the first commit, all keys of
// the history must have rows. Commits come in their order.
func (s *states) commit(p *pending, seq uint64) {
	for _, r := range s.rows {
		if _, ok := p.get(r.key); ok {
			below, ok := r.at(seq - 1)
			v, _ := p.version(r.key, below, ok)
			v.seq = seq
			r.versions = append(r.versions, v)
		}
	}
}

// sort sorts the rows by key, which reads of ranges need.
func (s *states) sort() {
	slices.SortFunc(s.rows, func(a, b *row) int { return cmp.Compare(a.key, b.key) })
}

// within returns the rows of a span, ascending.
func (s *states) within(in span) []*row {
	first := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].key >= in.lo })
	last := len(s.rows)
	if in.hi != "" {
		last = sort.Search(len(s.rows), func(i int) bool { return s.rows[i].key >= in.hi })
	}
	if first >= last {
		return nil
	}
	return s.rows[first:last]
}

// A view is one state under the pending writes of one transaction.
type view struct {
	states *states
	seq    uint64
	own    *pending
	timed  bool
}

// get reads one key.
func (v *view) get(key string, at uint64) (Item, bool) {
	for _, it := range v.all(span{key, ofKey(key).hi}, at) {
		if it.Key == key {
			return it, !it.Deleted
		}
	}
	return Item{}, false
}

// all returns the items of a span, ascending, with deletions. At a timestamp, these are
// all versions up to it. The latest one of a key comes first.
func (v *view) all(in span, at uint64) (items []Item) {
	var keys []string
	for _, r := range v.states.within(in) {
		keys = append(keys, r.key)
	}
	for key := range v.own.keys {
		if in.holds(key) && v.states.byKey[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		var below version
		ok := false
		if r := v.states.byKey[key]; r != nil {
			below, ok = r.at(v.seq)
		}
		x, ok := v.own.version(key, below, ok)
		it := Item{Key: key, Value: x.value, Version: x.seq, Deleted: x.deleted}
		if v.timed {
			it.Key, it.At = unstamped(key)
		}
		if ok && it.At <= at {
			items = append(items, it)
		}
	}
	return items
}

// scan returns the first limit items that a query shows. A limit of -1 means
// all.
func (v *view) scan(q Query, limit int, at uint64) []Item {
	all := v.all(span{q.Lo, q.Hi}, at)
	if !q.All {
		all = slices.CompactFunc(all, func(a, b Item) bool { return a.Key == b.Key })
		all = slices.DeleteFunc(all, func(it Item) bool { return it.Deleted })
	}
	if q.Reverse {
		slices.Reverse(all)
	}
	if limit >= 0 {
		all = all[:min(limit, len(all))]
	}
	if q.KeysOnly {
		for i := range all {
			all[i].Value = ""
		}
	}
	return all
}
