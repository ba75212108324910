package table

import (
	"encoding/binary"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// Where keys grow evenly, a part is exact but for an entry at its bound, whatever the number
// of blocks is. Fences are searched in groups of 16.
func TestPart_IsExactWhereKeysGrowEvenly(t *testing.T) {
	t.Parallel()
	seen := map[uint32]bool{}
	for n := 1; !seen[33]; n += 5 {
		var entries []base.Entry
		for i := range n {
			entries = append(entries, base.Entry{Key: binary.BigEndian.AppendUint64([]byte("key"), uint64(i)*1000),
				Value: make([]byte, 300), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
		}
		data, _ := mustBuild(t, entries, WriterOptions{})
		r := mustOpen(t, data, ReaderOptions{})
		seen[uint32(r.blocks)] = true
		for i := range entries {
			from, _, err := r.Part(entries[i].Key, nil)
			if err != nil {
				t.Fatal(err)
			}
			to, _, err := r.Part(nil, entries[i].Key)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := int(from)-(n-i), int(to)-i; max(a, -a, b, -b) > 1 {
				t.Fatalf("%d blocks: %d entries before number %d of %d, and %d from there on", r.blocks, to, i, n, from)
			}
		}
	}
	if !seen[16] || !seen[32] {
		t.Errorf("no table has 16 or 32 blocks: %v", seen)
	}
}
