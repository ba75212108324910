package salvage

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

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

// tableSources returns the tables to read, in chains, and reads their range tombstones.
func (s *salvager) tableSources(found []base.FileNum) (all []source, err error) {
	var groups [][]tableInput
	if s.known && s.state.Version != nil {
		groups = s.liveTables(found)
	} else {
		groups, err = s.allTables(found)
	}
	s.deletions, s.lists = rangedel.Merge(s.lists...), nil
	for _, tables := range groups {
		all = append(all, &chain{s: s, tables: tables})
	}
	return all, err
}

// hint returns what the manifest says of a table.
func hint(t *manifest.Table) *table.Hint {
	return &table.Hint{Salt: t.Salt, SeqShift: t.SeqShift, Counts: &table.Counts{Entries: t.Entries, Deletions: t.Deletions, Expiring: t.Expiring,
		Pointers: t.Pointers, Partials: t.Partials, RangeDeletions: t.RangeDeletions}}
}

// liveTables returns the tables of the manifest by level.
func (s *salvager) liveTables(found []base.FileNum) (groups [][]tableInput) {
	add := func(tables []*manifest.Table) {
		var group []tableInput
		for _, t := range tables {
			in := tableInput{num: t.Num, hint: hint(t), lo: t.Smallest, hi: base.StoredBound(t.Largest)}
			s.report.Tables++
			if !slices.Contains(found, t.Num) {
				s.report.loseFile(in.name(), t.Size, in.lo, in.hi, base.Corrupt(-1, "file", "none", fmt.Sprintf("%d bytes", t.Size)))
				continue
			}
			group = append(group, in)
			if t.RangeDeletions > 0 || t.Entries == 0 {
				s.readDeletions(&in)
			}
		}
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	v := s.state.Version
	for i := range v.Runs() {
		add(v.Run(i))
	}
	for _, tables := range v.Levels[1:] {
		add(tables)
	}
	return groups
}

// allTables returns all tables that can be read.
func (s *salvager) allTables(found []base.FileNum) ([][]tableInput, error) {
	hints := map[base.FileNum]*table.Hint{}
	if v := s.state.Version; v != nil {
		for t := range v.Tables() {
			hints[t.Num] = hint(t)
		}
	}
	var tables []tableInput
	for _, n := range found {
		if err := s.o.Stop(); err != nil {
			return nil, err
		}
		in := tableInput{num: n, hint: hints[n]}
		s.report.Tables++
		d := s.readDeletions(&in)
		if d == nil {
			s.report.loseFile(in.name(), 0, nil, nil, errUnopened)
			continue
		}
		in.lo, in.hi, _ = d.Bounds()
		in.span(d)
		tables = append(tables, in)
	}
	placeIngested(tables)
	return chains(slices.DeleteFunc(tables, func(t tableInput) bool { return t.lo == nil })), nil
}

var errUnopened = fmt.Errorf("%w: neither the footer nor the directory verifies", base.ErrCorrupt)

// readDeletions reads the range tombstones of a table, and reports what is wrong outside
// of its blocks. It returns nil if the table cannot be opened.
func (s *salvager) readDeletions(t *tableInput) *table.Damaged {
	file, d, err := s.openTable(t)
	if err != nil {
		return nil
	}
	_ = file.Close() // it was only read
	if l := d.Deletions(); l.Len() > 0 {
		s.lists = append(s.lists, l)
		newest, _ := l.Seqs()
		s.lastSeq = max(s.lastSeq, newest)
	}
	for _, p := range d.Problems {
		p.Err = fmt.Errorf("range tombstones are lost, so deleted keys may return: %w", p.Err)
		s.report.losePart(t.name(), p)
	}
	return d
}

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
				c.close()
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

// close closes the open table, if there is one.
func (c *chain) close() {
	if c.file == nil {
		return
	}
	_ = c.file.Close() // it was only read
	c.it, c.file, c.entries = nil, nil, nil
}
