package stream

import (
	"bytes"
	stditer "iter"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
)

// A Range is the stored keys from Lo, inclusive, to Hi, exclusive. nil is no bound.
type Range struct{ Lo, Hi []byte }

// A Snapshot is what a reader sees. Its view must stay until the last use.
type Snapshot struct {
	View *state.View
	At   base.SeqNum
}

// Ranges cuts a range into ranges of about RangeSize bytes, without what lies in tables that
// have nothing newer than since.
func (s Snapshot) Ranges(r Range, since base.SeqNum) stditer.Seq2[Range, error] {
	return func(yield func(Range, error) bool) {
		going := true
		err := s.View.Tree.Cuts(r.Lo, r.Hi, since, RangeSize, func(key []byte) bool {
			going = yield(Range{r.Lo, key}, nil)
			r.Lo = key
			return going
		})
		if err != nil {
			yield(Range{}, err)
		} else if going {
			yield(r, nil)
		}
	}
}

// Deletions returns a cursor over the range tombstones of the snapshot.
func (s Snapshot) Deletions() (*rangedel.Cursor, error) {
	c := new(rangedel.Cursor)
	c.Init(false)
	for _, t := range s.View.Memtables {
		t.AddDeletions(c, s.At)
	}
	return c, s.View.Tree.AddDeletions(c, s.At)
}

// A Scan walks over all versions in a range that the snapshot sees and no range tombstone
// hides. It shows them as they are stored: keys ascend, and versions of a key descend. The
// caller must close it.
type Scan struct {
	// Entry is the current version. Its key is valid until Next, its value as long as the
	// view. The value of an entry of base.KindPointer is a pointer; see Value.
	Entry base.Entry

	view    *tree.View
	all     iter.Visible
	levels  tree.Levels
	sources []memtable.Iter
	arena   codec.Arena
	begun   bool
	covers  *rangedel.Cursor
	// cover hides older versions of the keys below until; nil is the end of all keys.
	cover base.SeqNum
	until []byte
	known bool

	ahead      tree.Ahead
	aheadRound uint64
	aheadFrom  int
	// fetch has read the values of the entries below fetched that are newer than since; nil
	// is the first key.
	snapshot Snapshot
	since    base.SeqNum
	newer    bool // see scanOptions
	end      []byte
	fetch    tree.Fetch
	fetched  []byte
	// sparse says that the caller needs the values of few keys.
	sparse bool
}

// fetchSize is about how many bytes of values a scan reads together. A range has fewer.
const fetchSize = 4 << 20

// Scan returns a scan before its first version. It reads no values that are not newer than
// since, if that saves reads. So the values of older versions mean nothing.
func (s Snapshot) Scan(r Range, since base.SeqNum) (*Scan, error) {
	return s.scan(r, since, scanOptions{keysOnly: since > 0 && !s.View.Tree.NewerWithin(r.Lo, r.Hi, since)})
}

// scanOptions choose what a scan reads.
type scanOptions struct {
	keysOnly bool // no values that lie in tables
	newer    bool // no memtables and tables that have nothing newer than since
}

// scan returns a scan before its first version.
func (s Snapshot) scan(r Range, since base.SeqNum, o scanOptions) (*Scan, error) {
	c := &Scan{view: s.View.Tree, snapshot: s, since: since, newer: o.newer, end: r.Hi}
	var err error
	if c.covers, err = s.Deletions(); err != nil {
		return nil, err
	}
	memtables, least := s.View.Memtables, base.SeqNum(0)
	if o.newer {
		if least = since; mutant.On(mutant.StreamSinceSkips) {
			least++
		}
		memtables = s.View.MemtablesSince(least)
	}
	c.levels.Init(s.View.Tree, least, table.IterOptions{KeysOnly: o.keysOnly, Arena: &c.arena})
	c.sources = make([]memtable.Iter, len(memtables))
	var inputs []iter.Input
	for i, t := range memtables {
		c.sources[i].Init(t, false)
		inputs = append(inputs, iter.Input{Source: &c.sources[i]})
	}
	for i := range c.levels.Len() {
		inputs = append(inputs, iter.Input{Source: c.levels.Source(i), Grouped: true})
	}
	c.all.Init(inputs, false, r.Lo, r.Hi, iter.Snapshot{At: s.At, AllVersions: true})
	c.all.Together(&c.levels)
	c.ahead.Init(s.View.Tree)
	c.fetch.Init(s.View.Tree)
	return c, nil
}

// Next moves to the next version. It reports false at the end and after an error.
func (c *Scan) Next() bool {
	for {
		if !c.begun {
			c.begun = true
			c.all.Seek(nil)
		} else {
			c.all.Next()
		}
		if !c.all.Valid() {
			return false
		}
		if c.Entry = *c.all.Entry; !c.covered() {
			return true
		}
	}
}

// covered reports whether a range tombstone hides the current version.
func (c *Scan) covered() bool {
	if c.covers.Empty() || mutant.On(mutant.BackupUncovered) {
		return false
	}
	if !c.known || c.until != nil && bytes.Compare(c.Entry.Key, c.until) >= 0 {
		c.cover, c.until = c.covers.At(c.Entry.Key)
		c.known = true
	}
	return c.Entry.Seq < c.cover
}

// Err returns the error that ended the scan, or nil.
func (c *Scan) Err() error { return c.all.Err() }

// Value returns the value of the current version, as long as the view stays.
func (c *Scan) Value() ([]byte, error) {
	e := &c.Entry
	if e.Meta.Kind != base.KindPointer {
		return e.Value, nil
	}
	if round, at, n := c.all.Round(); at >= 0 {
		if round != c.aheadRound {
			c.loadAhead(round, at, n)
		}
		if v, ok := c.ahead.Get(at-c.aheadFrom, &c.arena); ok {
			return v, nil
		}
	}
	return c.view.Value(e.Value, e.Key, e.Seq, &c.arena)
}

// loadAhead finds the values of the rest of a round together. If they were not read before,
// it first reads those of the range.
func (c *Scan) loadAhead(round uint64, at, n int) {
	c.aheadRound, c.aheadFrom = round, at
	c.ahead.AddRound(&c.all, at, n)
	if c.ahead.Load(0) == 0 || !c.sparse && bytes.Compare(c.Entry.Key, c.fetched) < 0 {
		return
	}
	if c.sparse {
		c.fetchRound(at, n)
	} else {
		c.fetchFrom(bytes.Clone(c.Entry.Key))
	}
	c.ahead.Load(0)
}

// fetchRound reads the values of the rest of a round together.
func (c *Scan) fetchRound(at, n int) {
	for i := at; i < n; i++ {
		if e := c.all.InRound(i); e.Meta.Kind == base.KindPointer {
			c.fetch.Add(e.Value)
		}
	}
	c.fetch.Run()
}

// fetchFrom reads the values from a key on together, in the order of their files. It reads
// the values of the rest of the range, or about fetchSize bytes of them. A scan that reads
// the same keys finds them. It ignores errors: the scan finds them as well.
func (c *Scan) fetchFrom(key []byte) {
	keys, err := c.snapshot.scan(Range{key, c.end}, c.since, scanOptions{keysOnly: true, newer: c.newer})
	if err != nil {
		return
	}
	defer keys.Close()
	for keys.Next() {
		e := &keys.Entry
		if c.fetched = append(c.fetched[:0], e.Key...); c.fetch.Bytes() >= fetchSize {
			break
		}
		if e.Meta.Kind == base.KindPointer && e.Seq > c.since {
			c.fetch.Add(e.Value)
		}
	}
	c.fetch.Run()
}

// Close ends the scan.
func (c *Scan) Close() {
	c.all.Clear()
	for i := range c.sources {
		c.sources[i].Close()
	}
	c.levels.Close()
	c.ahead.Clear()
}
