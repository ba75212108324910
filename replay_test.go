package stoat

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/txn"
)

// Numbers may be missing in the log as far as what they stood for is in
// tables, and nowhere else.
func TestReplayAcceptsAGapOnlyUpToWhatIsInTables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		flushed base.SeqNum
		seqs    []base.SeqNum
		sound   bool
	}{
		{"every number", 0, []base.SeqNum{1, 2, 3}, true},
		{"every number, some in tables", 2, []base.SeqNum{1, 2, 3}, true},
		{"a gap between what is in tables", 9, []base.SeqNum{1, 4, 5}, true},
		{"a gap up to what is in tables", 9, []base.SeqNum{1, 10, 11}, true},
		{"the beginning is in tables", 9, []base.SeqNum{10, 11}, true},
		{"all is in tables", 9, []base.SeqNum{7}, true},
		{"the first is missing", 0, []base.SeqNum{2}, false},
		{"one is missing behind the tables", 9, []base.SeqNum{9, 11}, false},
		{"one is missing behind a gap in tables", 9, []base.SeqNum{1, 11}, false},
		{"one is missing behind what was replayed", 9, []base.SeqNum{10, 12}, false},
		{"one comes twice", 0, []base.SeqNum{1, 1}, false},
		{"one comes twice in tables", 9, []base.SeqNum{3, 3}, false},
		{"one comes late", 9, []base.SeqNum{3, 4, 2}, false},
		{"number 0", 9, []base.SeqNum{0}, false},
	} {
		d := &DB{opts: (*Options)(nil).withDefaults()}
		d.memory.init(d.opts.MemtableSize)
		r := replay{db: d, flushed: c.flushed, active: d.memory.newTable(0)}
		d.view.Store(&view{tables: []*memtable.Table{r.active}})
		var err error
		for _, seq := range c.seqs {
			payload := txn.Header{Seq: seq, TimeMs: 1, Count: 1}.AppendTo(nil)
			payload = append(txn.AppendEntryHead(payload, []byte("k"), 1, base.Meta{Kind: base.KindSet}), 'v')
			if err = r.apply(payload); err != nil {
				break
			}
		}
		if c.sound != (err == nil) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s (%v, tables up to %d): error %v", c.what, c.seqs, c.flushed, err)
		}
		want := 0
		for _, seq := range c.seqs {
			if seq > c.flushed {
				want++
			}
		}
		if c.sound && r.active.Len() != want {
			t.Errorf("%s: %d versions were replayed, want %d", c.what, r.active.Len(), want)
		}
		r.active.Release()
	}
}
