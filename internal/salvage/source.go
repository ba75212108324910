package salvage

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
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

// A tableInput is a table to read.
type tableInput struct {
	num    base.FileNum
	hint   *table.Hint
	lo, hi []byte // bounds of the keys, inclusive; nil if it has none
	// oldest and newest bound the versions in it. newest is 0 if none is known.
	oldest, newest base.SeqNum
	// ingested is the version of entries whose own one is lost; see placeIngested.
	ingested base.SeqNum
	// made says that salvage wrote the table itself.
	made bool
	log  bool // it is a part of the log
}

func (t *tableInput) name() string { return base.TableName(t.num) }

// A chain reads tables that do not overlap, in key order. It has one of them open at a
// time.
type chain struct {
	s      *salvager
	tables []tableInput

	table   tableInput // the open one
	told    bool       // the report says that its version is lost
	file    vfs.File
	it      *table.DamagedIter
	entries []base.Entry
	current entry
	last    []byte // the last key
	lastSeq base.SeqNum
	begun   bool
}

func (c *chain) next() (*entry, error) {
	for {
		for len(c.entries) == 0 {
			if c.it != nil {
				if c.entries = c.it.Next(); len(c.entries) > 0 {
					break
				}
				c.end()
			}
			if len(c.tables) == 0 {
				return nil, nil
			}
			if err := c.open(); err != nil {
				return nil, err
			}
		}
		e := c.entries[0]
		c.entries = c.entries[1:]
		if e.Seq == 0 {
			e.Seq = c.ingested()
		}
		if order := bytes.Compare(c.last, e.Key); c.begun && (order > 0 || order == 0 && c.lastSeq <= e.Seq) {
			continue // bounds lie only in a table that no stoat wrote
		}
		c.last, c.lastSeq, c.begun = append(c.last[:0], e.Key...), e.Seq, true
		c.current.Entry = e
		return &c.current, nil
	}
}

// open opens the next table. A table that cannot be opened is lost.
func (c *chain) open() error {
	if err := c.s.o.Stop(); err != nil {
		return err
	}
	t := c.tables[0]
	c.tables = c.tables[1:]
	file, d, err := c.s.openTable(&t)
	if err != nil && t.made {
		return err
	}
	if err != nil {
		c.s.report.loseFile(t.name(), 0, t.lo, t.hi, err)
		return nil
	}
	for _, note := range d.Notes {
		c.s.noteOnce(note.Error())
	}
	c.table, c.told, c.file = t, false, file
	c.current.rank = ofLog + 1 + uint64(t.num)
	if t.log {
		c.current.rank = ofLog
	}
	name := t.name()
	c.it = d.NewIter(func(l table.Lost) { c.s.report.losePart(name, l) })
	return nil
}

// ingested returns the version of the open table's entries, and reports once that their own
// one is lost. It is not 0: scans do not show version 0 beside a range tombstone, and
// compactions drop it.
func (c *chain) ingested() base.SeqNum {
	if t := &c.table; !c.told {
		c.told = true
		err := base.InFile(base.Corrupt(-1, "version of ingested entries", "none", "the one in the manifest"), t.name())
		c.s.report.lose(Loss{File: t.name(), Offset: -1, from: t.lo, to: t.hi,
			Err: fmt.Errorf("%w; the entries were copied, but older values or deletions may hide them", err)})
	}
	return max(c.table.ingested, 1)
}

// end closes the open table. Tables that salvage made are removed.
func (c *chain) end() {
	if c.file == nil {
		return
	}
	_ = c.file.Close() // it was only read
	c.it, c.file, c.entries = nil, nil, nil
}

func (c *chain) close() { c.end() }

// openTable opens a table. Problems outside of its blocks are not reported.
func (s *salvager) openTable(t *tableInput) (vfs.File, *table.Damaged, error) {
	fs, dir := s.fs, s.o.From
	if t.made {
		fs, dir = s.to.fs, s.to.dir
	}
	f, err := fs.Open(fs.Join(dir, t.name()), vfs.CatTable)
	if err != nil {
		return nil, nil, err
	}
	file := fault.Tolerant(f)
	size, err := file.Size()
	if err == nil {
		var d *table.Damaged
		if d, err = table.OpenDamaged(file, size, t.name(), t.hint); err == nil {
			return file, d, nil
		}
	}
	_ = file.Close() // it was only read
	return nil, nil, err
}

// span sets the bounds of the versions in a table.
func (t *tableInput) span(d *table.Damaged) {
	t.oldest, t.newest = base.SeqNumMax, 0
	if p := d.Properties(); p != nil && p.Entries > 0 {
		t.oldest, t.newest = p.SmallestSeq, p.LargestSeq
		if t.hint != nil {
			t.oldest, t.newest = t.oldest+t.hint.SeqShift, t.newest+t.hint.SeqShift
		}
	}
	if l := d.Deletions(); l.Len() > 0 {
		newest, oldest := l.Seqs()
		t.oldest, t.newest = min(t.oldest, oldest), max(t.newest, newest)
	}
}

// placeIngested gives ingested entries a version in place of the one that only the manifest
// has. It sorts the tables by number. An ingest first writes its tables, then flushes the
// memtables, and then takes the next version. So its version is above those of the tables with
// smaller numbers, and of the tables behind that go on with the next version:
//
//	table     1     2          3     4
//	versions  1-7   ingested   8-9   11-14
//	                10
//
// A commit that left no trace, or a compaction, can make the result too small.
func placeIngested(tables []tableInput) {
	slices.SortFunc(tables, func(a, b tableInput) int { return cmp.Compare(a.num, b.num) })
	newest := base.SeqNum(0)
	for i := range tables {
		newest = max(newest, tables[i].newest)
		if tables[i].newest > 0 {
			continue
		}
		last := newest
		for _, t := range tables[i+1:] {
			if t.newest == 0 {
				continue // of the same ingest, or one after it
			}
			if t.oldest != last+1 {
				break
			}
			last = t.newest
		}
		tables[i].ingested = min(last, base.SeqNumMax-1) + 1
	}
}

// chains arranges tables in as few chains as possible.
func chains(tables []tableInput) (all [][]tableInput) {
	slices.SortFunc(tables, func(a, b tableInput) int {
		return cmp.Or(bytes.Compare(a.lo, b.lo), cmp.Compare(a.num, b.num))
	})
next:
	for _, t := range tables {
		for i, c := range all {
			if bytes.Compare(c[len(c)-1].hi, t.lo) < 0 {
				all[i] = append(c, t)
				continue next
			}
		}
		all = append(all, []tableInput{t})
	}
	return all
}

// A merger yields the entries of several sources in one order.
type merger struct {
	sources []source
	heads   []head // a heap by entry
	group   []head // the entries of the last group, and their sources
}

// A head is the next entry of a source.
type head struct {
	*entry
	of source
}

// before is the order of a heap: that of tables, and then the higher rank first.
func (h head) before(o head) bool {
	return cmp.Or(bytes.Compare(h.Key, o.Key), cmp.Compare(o.Seq, h.Seq), cmp.Compare(o.rank, h.rank)) < 0
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

// push puts the next entry of a source into the heap.
func (m *merger) push(s source) error {
	e, err := s.next()
	if e == nil || err != nil {
		return err
	}
	m.heads = append(m.heads, head{e, s})
	for i := len(m.heads) - 1; i > 0; {
		up := (i - 1) / 2
		if !m.heads[i].before(m.heads[up]) {
			break
		}
		m.heads[i], m.heads[up] = m.heads[up], m.heads[i]
		i = up
	}
	return nil
}

// pop removes the first entry from the heap.
func (m *merger) pop() head {
	first, n := m.heads[0], len(m.heads)-1
	m.heads[0] = m.heads[n]
	m.heads = m.heads[:n]
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < n && m.heads[down].before(m.heads[least]) {
				least = down
			}
		}
		if least == i {
			return first
		}
		m.heads[i], m.heads[least] = m.heads[least], m.heads[i]
		i = least
	}
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
		first := m.heads[0]
		if len(m.group) > 0 && (first.Seq != m.group[0].Seq || !bytes.Equal(first.Key, m.group[0].Key)) {
			break
		}
		m.group = append(m.group, m.pop())
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
