package isolation

import (
	"maps"
	"slices"
	"sort"
)

// A version is one committed value of one key.
type version struct {
	seq     uint64
	value   string
	deleted bool
}

// A row is a key with all its versions, oldest first.
type row struct {
	key      string
	versions []version
}

// at returns the version of the row that a snapshot at seq shows.
func (r *row) at(seq uint64) (version, bool) {
	n := sort.Search(len(r.versions), func(i int) bool { return r.versions[i].seq > seq })
	if n == 0 || r.versions[n-1].deleted {
		return version{}, false
	}
	return r.versions[n-1], true
}

// A span is the keys of [lo, hi). An empty hi means no end.
type span struct{ lo, hi string }

func (s span) holds(key string) bool { return key >= s.lo && (s.hi == "" || key < s.hi) }

// meets reports whether a key could lie in both spans.
func (s span) meets(o span) bool {
	end := s.hi
	if end == "" || o.hi != "" && o.hi < end {
		end = o.hi
	}
	return end == "" || max(s.lo, o.lo) < end
}

// A pending is the set of writes that a transaction will commit.
type pending struct {
	keys map[string]*string // nil is a deletion
	// ranges are deleted, except for the entries of keys, which are later.
	ranges []span
}

func newPending() *pending { return &pending{keys: make(map[string]*string)} }

func (p *pending) apply(op *Op) {
	switch op.Kind {
	case OpSet:
		p.keys[op.Key] = &op.Value
	case OpDelete:
		p.keys[op.Key] = nil
	case OpDeleteRange:
		s := span{op.Query.Lo, op.Query.Hi}
		maps.DeleteFunc(p.keys, func(key string, _ *string) bool { return s.holds(key) })
		p.ranges = append(p.ranges, s)
	}
}

// get returns the write of the key in p, nil for a deletion, and whether there
// is one.
func (p *pending) get(key string) (value *string, ok bool) {
	if value, ok = p.keys[key]; ok {
		return value, true
	}
	return nil, slices.ContainsFunc(p.ranges, func(s span) bool { return s.holds(key) })
}

// writes reports whether p writes a key in s.
func (p *pending) writes(s span) bool {
	for key := range p.keys {
		if s.holds(key) {
			return true
		}
	}
	return slices.ContainsFunc(p.ranges, s.meets)
}

// states holds every state of a history.
type states struct {
	rows  []*row
	byKey map[string]*row
}

func newStates(initial []Item) *states {
	s := &states{byKey: make(map[string]*row)}
	for _, it := range initial {
		s.add(it.Key, version{seq: it.Version, value: it.Value})
	}
	return s
}

func (s *states) add(key string, v version) {
	r := s.row(key)
	r.versions = append(r.versions, v)
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
		if value, ok := p.get(r.key); ok {
			v := version{seq: seq, deleted: value == nil}
			if value != nil {
				v.value = *value
			}
			r.versions = append(r.versions, v)
		}
	}
}

// sort sorts the rows by key, which reads of ranges need.
func (s *states) sort() {
	slices.SortFunc(s.rows, func(a, b *row) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
}

// within returns the rows of [lo, hi), ascending. An empty hi means no end.
func (s *states) within(lo, hi string) []*row {
	first := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].key >= lo })
	last := len(s.rows)
	if hi != "" {
		last = sort.Search(len(s.rows), func(i int) bool { return s.rows[i].key >= hi })
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
}

// get reads one key.
func (v *view) get(key string) (Item, bool) {
	if value, ok := v.own.get(key); ok {
		if value == nil {
			return Item{}, false
		}
		return Item{Key: key, Value: *value}, true
	}
	if r := v.states.byKey[key]; r != nil {
		if x, ok := r.at(v.seq); ok {
			return Item{key, x.value, x.seq}, true
		}
	}
	return Item{}, false
}

// scan returns the first limit items that a query shows. A limit of -1 means
// all.
func (v *view) scan(q Query, limit int) []Item {
	var keys []string
	for _, r := range v.states.within(q.Lo, q.Hi) {
		keys = append(keys, r.key)
	}
	for key := range v.own.keys {
		if key >= q.Lo && (q.Hi == "" || key < q.Hi) && v.states.byKey[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if q.Reverse {
		slices.Reverse(keys)
	}
	var items []Item
	for _, key := range keys {
		if limit >= 0 && len(items) == limit {
			break
		}
		if it, ok := v.get(key); ok {
			if q.KeysOnly {
				it.Value = ""
			}
			items = append(items, it)
		}
	}
	return items
}
