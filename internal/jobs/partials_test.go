package jobs

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/state"
)

func TestWithoutPartials_AMemtableReleasedMeanwhileMayHaveHadSome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		kind    base.Kind
		flushed bool // between the two looks at the view
		want    bool
	}{
		{"whole entries", base.KindSet, false, true},
		{"a partial entry", base.KindMerge, false, false},
		{"a partial entry that is flushed", base.KindMerge, true, false},
	} {
		table := memtable.New(memtable.Options{Memory: memtable.Heap(), ChunkSize: 4 << 10})
		key := []byte("k")
		if err := table.Set(key, []byte("1"), base.Hash(key, 0), base.Meta{Kind: c.kind}, 1); err != nil {
			t.Fatal(err)
		}
		v := &state.View{Memtables: []*memtable.Table{table}}
		now := v
		_, without := withoutPartials(func() *state.View {
			v := now
			if c.flushed && v.Memtables != nil {
				now = new(state.View)
				table.Release()
			}
			return v
		})
		if without != c.want {
			t.Errorf("%s: without partial entries is %t, want %t", c.name, without, c.want)
		}
		table.Release()
	}
}
