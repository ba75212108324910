package check

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
)

// checkOrder checks that the tables of a run, or of a level below level 0, are in
// order and do not overlap.
func (c *checker) checkOrder(tables []*manifest.Table, level int) {
	for i := 1; i < len(tables); i++ {
		a, b := tables[i-1], tables[i]
		if a.Run == b.Run && !a.EndsBefore(b.Smallest) {
			c.report.add(base.InFile(base.Corrupt(-1, fmt.Sprintf("order of level %d", level),
				fmt.Sprintf("from key %s on", base.BoundString(b.Smallest)), fmt.Sprintf("keys behind those of %s", base.TableName(a.Num))), base.TableName(b.Num)))
		}
	}
}

// checkTable checks a table by itself, its metadata in the manifest, and its
// pointers.
func (c *checker) checkTable(m *manifest.Table) (err error) {
	if err := c.stop(); err != nil {
		return err
	}
	c.report.Tables++
	defer c.passed(m.Size)
	name := base.TableName(m.Num)
	r, err := c.o.OpenTable(m)
	if err != nil {
		c.incomplete = true
		return c.report.note(base.InFile(err, name))
	}
	defer func() { err = errors.Join(err, r.Close()) }() // also after a fault
	if err = r.Verify(); err == nil {
		p := r.Properties()
		c.compare(m, &p)
		err = errors.Join(c.checkKeyspaces(name, r), c.checkEntries(m, r))
	}
	c.incomplete = c.incomplete || err != nil
	return c.report.note(err)
}

// checkKeyspaces checks that the keys of a table are of keyspaces that the manifest
// knows. It looks at one key of each keyspace, and at all keys of those with timestamps.
func (c *checker) checkKeyspaces(name string, r *table.Reader) error {
	timed := false
	it := r.NewIter(table.IterOptions{Unmapped: true, KeysOnly: true})
	var b iter.Batch
	for from := []byte(nil); ; {
		it.Seek(from)
		b.Want = 1
		if err := it.Fill(&b); err != nil {
			return err
		}
		if b.N == 0 {
			if p := r.Properties(); !timed && p.NewestExpiry >= stamp.ExpiryMark {
				c.report.add(base.InFile(base.Corrupt(-1, "latest expiry", p.NewestExpiry, "no mark of a version with a timestamp"), name))
			}
			return nil
		}
		number, err := keyspace.NumberOf(b.Entries[0].Key)
		if err != nil {
			c.report.add(base.InFile(base.Corrupt(-1, "stored key", fmt.Sprintf("%.40q", b.Entries[0].Key), "a key of some keyspace"), name))
			return nil
		}
		if _, known := c.o.State.Keyspace(number); !known && number > 0 {
			c.report.add(base.InFile(base.Corrupt(-1, "keyspace of a key", number, "a keyspace of the manifest"), name))
		}
		if c.o.State.Timed(number) {
			timed = true
			if err := c.checkStamps(name, r, number); err != nil {
				return err
			}
		}
		if number > 0 || b.Entries[0].Key[0] == keyspace.Escape {
			_, from = keyspace.Bounds(number)
		} else {
			from = []byte{keyspace.Escape}
		}
	}
}

// compare compares the properties of a table with the manifest.
func (c *checker) compare(m *manifest.Table, p *table.Properties) {
	name := base.TableName(m.Num)
	c.report.Entries += p.Entries
	for _, x := range []struct {
		what      string
		got, want uint64
	}{
		{"smallest sequence number", uint64(p.SmallestSeq), uint64(m.SmallestSeq)},
		{"largest sequence number", uint64(p.LargestSeq), uint64(m.LargestSeq)},
		{"count of entries", p.Entries, m.Entries},
		{"count of deletions", p.Deletions, m.Deletions},
		{"count of range deletions", p.RangeDeletions, m.RangeDeletions},
		{"count of expiring entries", p.Expiring, m.Expiring},
		{"count of pointers", p.Pointers, m.Pointers},
		{"count of partial entries", p.Partials, m.Partials},
		{"earliest expiry", p.OldestExpiry, m.OldestExpiry},
		{"latest expiry", p.NewestExpiry, m.NewestExpiry},
		{"bytes of keys", p.KeyBytes, m.KeyBytes},
		{"bytes of values", p.ValueBytes, m.ValueBytes},
	} {
		if x.got != x.want {
			c.report.mismatch(name, x.what, x.got, x.want)
		}
	}
	if m.Keys != 0 && p.Keys != m.Keys {
		c.report.mismatch(name, "count of keys", p.Keys, m.Keys)
	}
	if !bytes.Equal(p.Smallest, m.Smallest) {
		c.report.mismatch(name, "smallest key", base.BoundString(p.Smallest), base.BoundString(m.Smallest))
	}
	if !bytes.Equal(p.Largest, m.Largest) || p.LargestExclusive != m.LargestExclusive {
		c.report.mismatch(name, "largest key", base.BoundString(p.Largest), base.BoundString(m.Largest))
	}
	if m.LargestSeq > c.o.State.FlushedSeq {
		c.report.mismatch(name, "largest sequence number", m.LargestSeq, fmt.Sprintf("%d at most", c.o.State.FlushedSeq))
	}
	want := make([]table.ValueFileRef, 0, m.Values.Len())
	for v := range m.Values.All() {
		want = append(want, table.ValueFileRef{File: uint64(v.File), Bytes: v.Bytes})
	}
	if !slices.Equal(p.ValueFiles, want) {
		c.report.mismatch(name, "references to value files", p.ValueFiles, want)
	}
}

// A walk is the check of the entries of one table.
type walk struct {
	table  string
	refs   references
	due    []due // pointers to follow
	size   int   // about the memory of due in bytes
	broken int   // entries with problems
}

// A due is a pointer to follow, and what the value must belong to.
type due struct {
	at  values.Pointer
	key []byte
	seq base.SeqNum
}

const (
	// dueMax bounds the memory of the pointers to follow in bytes.
	dueMax = 32 << 20
	// dueSize is about the memory of one of them in bytes, without the key.
	dueSize = 80
)

// checkEntries follows the pointers of a table. Each must lead to the value of its
// key and version. Together they must refer to as many bytes of each value file as
// the table says. It decodes partial entries, for which it needs no merge function.
func (c *checker) checkEntries(m *manifest.Table, r *table.Reader) error {
	if p := r.Properties(); m.Pointers+m.Partials == 0 && p.Pointers+p.Partials == 0 {
		return nil
	}
	w := walk{table: base.TableName(m.Num), refs: references{bytes: make(map[base.FileNum]uint64)}}
	it := r.NewIter(table.IterOptions{Unmapped: true})
	it.Seek(nil)
	b := iter.Batch{Want: iter.BatchSize}
	for {
		if err := it.Fill(&b); err != nil {
			return err
		}
		if err := c.stop(); err != nil {
			return err
		}
		for i := range b.N {
			e := &b.Entries[i]
			err := error(nil)
			switch {
			case e.Meta.Kind == base.KindPointer:
				err = c.count(e, &w)
			case e.Meta.Kind.Partial():
				c.steps, err = partial.Decode(c.steps[:0], e.Meta.Kind, e.Value)
			}
			if err = c.note(&w, e.Key, e.Seq, err); err != nil {
				return err
			}
		}
		if b.N == 0 || w.size > dueMax {
			if err := c.followAll(&w); err != nil {
				return err
			}
		}
		switch {
		case w.broken > problemsMax:
			c.incomplete = true
			return nil
		case b.N == 0:
			c.compareRefs(m, r, &w.refs)
			return nil
		}
	}
}

// note reports err, a problem with a version of a key, unless the table has many already.
func (c *checker) note(w *walk, key []byte, seq base.SeqNum, err error) error {
	if err == nil {
		return nil
	}
	if w.broken++; w.broken > problemsMax {
		return nil
	}
	return c.report.note(fmt.Errorf("%s: version %d of key %q: %w", w.table, seq, key, err))
}

// compareRefs compares what the pointers of a table refer to with what the table says of
// that, and with the manifest.
func (c *checker) compareRefs(m *manifest.Table, r *table.Reader, refs *references) {
	c.report.Jumps += refs.jumps.count
	if m.Jumps != 0 && m.Jumps != refs.jumps.count {
		c.report.mismatch(base.TableName(m.Num), "jumps between value files", refs.jumps.count, m.Jumps)
	}
	for _, want := range r.Properties().ValueFiles {
		if got := refs.bytes[base.FileNum(want.File)]; got != want.Bytes {
			c.report.add(base.InFile(base.Corrupt(-1, fmt.Sprintf("bytes referred to in value file %d", want.File), got, want.Bytes), base.TableName(m.Num)))
		}
		delete(refs.bytes, base.FileNum(want.File))
	}
	for num, got := range refs.bytes {
		c.report.add(base.InFile(base.Corrupt(-1, fmt.Sprintf("bytes referred to in value file %d", num), got, 0), base.TableName(m.Num)))
	}
}

// references are what the pointers of a table refer to.
type references struct {
	bytes   map[base.FileNum]uint64 // of each value file
	repeats values.Repeats
	jumps   jumps
}

// jumps counts how often consecutive pointers are in different value files.
type jumps struct {
	in    base.FileNum
	begun bool
	count uint64
}

func (j *jumps) to(file base.FileNum) {
	if j.begun && file != j.in {
		j.count++
	}
	j.in, j.begun = file, true
}

// count counts the pointer of an entry. The pointer becomes due if its value file can be read.
func (c *checker) count(e *base.Entry, w *walk) error {
	c.report.Pointers++
	p, err := values.DecodePointer(e.Value)
	if err != nil {
		return err
	}
	w.refs.jumps.to(p.File)
	kept := values.RefBytes(p)
	if w.refs.repeats.Next(e.Value) {
		kept = 0
	}
	w.refs.bytes[p.File] += kept
	f := c.files[p.File]
	if f == nil {
		return base.Corrupt(-1, "value file of a pointer", uint64(p.File), "a live one")
	}
	f.live += kept
	if f.damaged {
		return nil // reported by checkValues
	}
	w.due = append(w.due, due{at: p, key: bytes.Clone(e.Key), seq: e.Seq})
	w.size += dueSize + len(e.Key)
	return nil
}

// followAll follows the due pointers, one value file after the other. The values of neighbouring
// keys may lie in any number of files. In the order of keys, each pointer might open a file.
func (c *checker) followAll(w *walk) error {
	slices.SortFunc(w.due, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.at.File, b.at.File), cmp.Compare(a.at.Offset, b.at.Offset))
	})
	for i := range w.due {
		if i%iter.BatchSize == 0 {
			if err := c.stop(); err != nil {
				return err
			}
		}
		d := &w.due[i]
		if err := c.note(w, d.key, d.seq, c.follow(d)); err != nil || w.broken > problemsMax {
			return err
		}
	}
	clear(w.due) // the keys
	w.due, w.size = w.due[:0], 0
	return nil
}

// follow reads the value that a pointer leads to.
func (c *checker) follow(d *due) error {
	r, err := c.reader(c.files[d.at.File])
	if err != nil {
		return err
	}
	c.arena.Reset()
	_, err = r.Get(d.at, d.key, d.seq, &c.arena)
	return err
}
