package isolation

import (
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

// changedIn reports whether a commit in (after, through] wrote the row.
func (r *row) changedIn(after, through uint64) bool {
	n := sort.Search(len(r.versions), func(i int) bool { return r.versions[i].seq > after })
	return n < len(r.versions) && r.versions[n].seq <= through
}

// states is every state a history went through.
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
	r := s.byKey[key]
	if r == nil {
		r = &row{key: key}
		s.byKey[key] = r
		s.rows = append(s.rows, r)
	}
	r.versions = append(r.versions, v)
}

// sort brings the rows into key order; reads by range need it.
func (s *states) sort() {
	slices.SortFunc(s.rows, func(a, b *row) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
}

// within returns the rows of [lo, hi), ascending; an empty hi has no end.
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

// A view is one state with the pending writes of one transaction over it.
type view struct {
	states *states
	seq    uint64
	own    map[string]*string // nil is a deletion
}

// get reads one key.
func (v *view) get(key string) (Item, bool) {
	if value, ok := v.own[key]; ok {
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

// scan returns what a query that stops after at most len(limit) items shows.
// A limit of -1 reads all.
func (v *view) scan(q Query, limit int) []Item {
	var keys []string
	for _, r := range v.states.within(q.Lo, q.Hi) {
		keys = append(keys, r.key)
	}
	for key := range v.own {
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
