package commit

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// Numbers may be missing in the log up to what is in tables, and not beyond.
func TestReplay_AcceptsAGapOnlyUpToWhatIsInTables(t *testing.T) {
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
		store := newStore()
		defer store.Abandon()
		active := store.View().Memtables[0]
		r := replay{c: New(Options{Store: store, MemtableSize: storeMemtable}), flushed: c.flushed, active: active}
		var err error
		for _, seq := range c.seqs {
			encoded := payload.Header{Seq: seq, TimeMs: 1, Count: 1}.AppendTo(nil)
			encoded = append(payload.AppendEntryHead(encoded, []byte("k"), 1, base.Meta{Kind: base.KindSet}), 'v')
			if err = r.apply(encoded); err != nil {
				break
			}
		}
		if c.sound != (err == nil) || err != nil && !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s (%v, tables up to %d): error %v", c.what, c.seqs, c.flushed, err)
		}
		want := 0
		for _, seq := range c.seqs {
			if seq > c.flushed {
				want++
			}
		}
		if c.sound && active.Len() != want {
			t.Errorf("%s: %d versions were replayed, want %d", c.what, active.Len(), want)
		}
	}
}

// storeMemtable is the size in bytes of the memtables of newStore.
const storeMemtable = 1 << 20

// newStore returns the store of a database without files.
func newStore() *state.Store {
	return state.New(state.Options{
		Clock: base.SystemClock{}, Executor: &work.Executor{Manual: true}, Report: func(any) {},
		MemtableSize: storeMemtable, MemoryBudget: 1 << 24,
		State: manifest.State{Version: new(manifest.Version)},
		Files: func(func() bool) *tree.Files { return tree.New(tree.Options{}) },
		Freed: func() {},
	})
}
