package salvage

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// An entry is a version of a key, in a table or in the log.
type entry struct {
	base.Entry
	// rank orders copies of a version: the one of the newest file has the highest. It is
	// ofLog for entries of the log.
	rank uint64
}

const ofLog = 0

// A source yields entries in the order of tables: keys ascend, and sequence numbers
// descend within a key.
type source interface {
	// next returns the next entry, which is valid until the next call, or nil at the end.
	next() (*entry, error)
	close()
}

// A merger yields the entries of several sources in one order.
type merger struct {
	sources []source
	heads   []head // sorted; the first in order is last
	group   []head // the entries of the last group, and their sources
}

// A head is the next entry of a source.
type head struct {
	*entry
	of source
}

// compare is the order of entries: that of tables, and then the higher rank first.
func (h head) compare(o head) int {
	return cmp.Or(bytes.Compare(h.Key, o.Key), cmp.Compare(o.Seq, h.Seq), cmp.Compare(o.rank, h.rank))
}

// newMerger returns a merger, which closes the sources.
func newMerger(sources []source) (*merger, error) {
	m := &merger{sources: sources}
	for _, s := range sources {
		if err := m.push(s); err != nil {
			m.close()
			return nil, err
		}
	}
	return m, nil
}

// push puts the next entry of a source into the heads.
func (m *merger) push(s source) error {
	e, err := s.next()
	if e == nil || err != nil {
		return err
	}
	h := head{e, s}
	at, _ := slices.BinarySearchFunc(m.heads, h, func(a, b head) int { return b.compare(a) })
	m.heads = slices.Insert(m.heads, at, h)
	return nil
}

// next returns all copies of the next version of a key, the one of the newest file
// first, and none at the end. They are valid until the next call.
func (m *merger) next() ([]head, error) {
	for _, h := range m.group {
		if err := m.push(h.of); err != nil {
			return nil, err
		}
	}
	m.group = m.group[:0]
	for len(m.heads) > 0 {
		first := m.heads[len(m.heads)-1]
		if len(m.group) > 0 && (first.Seq != m.group[0].Seq || !bytes.Equal(first.Key, m.group[0].Key)) {
			break
		}
		m.group = append(m.group, first)
		m.heads = m.heads[:len(m.heads)-1]
	}
	return m.group, nil
}

func (m *merger) close() {
	for _, s := range m.sources {
		s.close()
	}
}

// reduce merges sources into tables of the new directory, until few are left.
func (s *salvager) reduce(sources []source, log bool) ([]source, error) {
	for len(sources) > s.o.FanIn {
		m, err := newMerger(sources[:s.o.FanIn])
		if err != nil {
			return nil, err
		}
		merged, err := s.mergeRaw(m, log)
		m.close()
		if err != nil {
			return nil, fmt.Errorf("merge: %w", err)
		}
		sources = append(sources[s.o.FanIn:], merged)
	}
	return sources, nil
}

// mergeRaw merges entries as they are. Of several copies of a version it takes one with a
// readable value.
func (s *salvager) mergeRaw(m *merger, log bool) (source, error) {
	out := s.newOutput(true)
	for {
		group, err := m.next()
		if err != nil || len(group) == 0 {
			return out.reread(log, err)
		}
		best := group[0]
		for _, h := range group {
			if len(group) == 1 || s.values.readable(&h.Entry) {
				best = h
				break
			}
		}
		if err := out.add(best.Entry); err != nil {
			return out.reread(log, err)
		}
	}
}
