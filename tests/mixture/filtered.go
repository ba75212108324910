package mixture

import (
	"slices"
	"strings"

	"github.com/stoatdb/stoat"
)

// A prefixFilter is a filter that the beginning of a value steers.
type prefixFilter struct{}

// The beginnings that a prefixFilter knows, and what it makes of the second.
const (
	dropMark = "drop"
	editMark = "edit"
	doneMark = "done"
)

// Name implements stoat.Filter.
func (prefixFilter) Name() string { return "prefix" }

// Filter implements stoat.Filter.
func (prefixFilter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	b, err := v.Bytes()
	switch {
	case err != nil:
		return stoat.FilterKeep, nil
	case strings.HasPrefix(string(b), dropMark):
		return stoat.FilterDrop, nil
	case strings.HasPrefix(string(b), editMark):
		return stoat.FilterRewrite, append([]byte(doneMark), b[len(editMark):]...)
	}
	return stoat.FilterKeep, nil
}

// A candidate is one content that a key may have.
type candidate struct {
	value   string
	present bool
	expires uint64 // in ms since 1970; 0 for never
	user    byte
}

// candidates are all contents that a key of a filtered keyspace may have since a commit. A
// compaction may or may not have filtered the key when the commit read it.
type candidates struct {
	seq uint64
	all []candidate
}

func (c candidate) live(now uint64) bool { return c.present && (c.expires == 0 || now < c.expires) }

// join adds a candidate unless it is known.
func join(all []candidate, c candidate) []candidate {
	if slices.Contains(all, c) {
		return all
	}
	return append(all, c)
}

// filtering adds what the filter makes of candidates.
func filtering(all []candidate) []candidate {
	out := slices.Clone(all)
	for _, c := range all {
		switch {
		case !c.present:
		case strings.HasPrefix(c.value, dropMark):
			out = join(out, candidate{})
		case strings.HasPrefix(c.value, editMark):
			c.value = doneMark + c.value[len(editMark):]
			out = join(out, c)
		}
	}
	return out
}

// candidatesAt returns what a key may be in a snapshot.
func (s *space) candidatesAt(key string, seq uint64) []candidate {
	history := s.candidates[key]
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].seq <= seq {
			return filtering(history[i].all)
		}
	}
	return []candidate{{}}
}

// applyFiltered applies a commit to the model of a filtered keyspace.
func (s *space) applyFiltered(writes []write, seq, now uint64) {
	for _, w := range writes {
		switch w.op {
		case set:
			s.put(w.key, seq, []candidate{{w.value, true, w.expiresAt(now), w.user}})
		case del:
			s.put(w.key, seq, []candidate{{}})
		case delRange:
			for key := range s.candidates {
				if w.covers(key) {
					s.put(key, seq, []candidate{{}})
				}
			}
		case merge, renew:
			var next []candidate
			for _, c := range s.candidatesAt(w.key, seq) {
				next = join(next, c.after(w, now))
			}
			s.put(w.key, seq, next)
		}
	}
}

// after returns what a merge or a renewal makes of a candidate.
func (c candidate) after(w write, now uint64) candidate {
	switch {
	case w.op == renew && c.live(now):
		c.expires = w.expires
	case w.op == merge && c.live(now):
		c.value = lastOf(c.value + w.value)
	case w.op == merge:
		c = candidate{value: lastOf(w.value), present: true}
	}
	return c
}

// lastOf is what the merge function keeps of a value.
func lastOf(value string) string { return value[max(0, len(value)-tail.Keep):] }

// put notes what a key may be since a commit.
func (s *space) put(key string, seq uint64, all []candidate) {
	history := s.candidates[key]
	if n := len(history); n > 0 && history[n-1].seq == seq {
		history[n-1].all = all
	} else {
		history = append(history, candidates{seq, all})
	}
	s.candidates[key] = history
}

// filteredEntries is space.entries for a filtered keyspace. A key that may be gone needs no
// entry. Of one that may be there, as many versions stay as it ever had.
func (s *space) filteredEntries(now uint64, versionsMax int) (least, most uint64) {
	for _, history := range s.candidates {
		if len(history) == 0 {
			continue
		}
		all := filtering(history[len(history)-1].all)
		live := func(c candidate) bool { return c.live(now) }
		dead := func(c candidate) bool { return !c.live(now) }
		if !slices.ContainsFunc(all, dead) {
			least++
		}
		if slices.ContainsFunc(all, live) {
			most += uint64(min(versionsMax, len(history)))
		}
	}
	return least, most
}
