package memtable

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// A comparison reads the word and the key of an entry. One memory access loads
// both, where the padding for this is cheap.
func TestArena_WordAndKeyShareACacheLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key, value int
		whole      bool // every entry is kept in one line
	}{
		{22, 128, true},
		{48, 400, true},
		{30, 0, false},   // the rest of a line is a third of them
		{9, 8, false},    // and here more than half
		{80, 128, false}, // longer than a line
	} {
		const n = 2000
		table := New(Options{Memory: offHeap{}, SizeHint: n})
		defer table.Release()
		value := make([]byte, test.value)
		least, split := 0, 0
		for i := range n {
			key := benchKey(nil, uint64(i))
			for len(key) < test.key {
				key = append(key, '.')
			}
			key = key[len(key)-test.key:]
			if err := table.Set(key, value, hashOf(key), base.Meta{Kind: base.KindSet}, 1); err != nil {
				t.Fatal(err)
			}
		}
		for i := range uint32(n) {
			e := table.arena.at(pairRef(table.order.at(i)))
			w := e.word()
			least += int(wordSize(w)+7) &^ 7
			if begin := uintptr(e.p) % cacheLine; int(begin)+wordKeyOffset(w)+wordKeyLen(w) > cacheLine {
				split++
			}
		}
		used := 0
		for _, c := range table.arena.chunks {
			used += len(c.bytes)
		}
		used -= table.arena.tip.size - table.arena.tip.used
		if test.whole != (split == 0) {
			t.Errorf("keys of %d, values of %d bytes: %d of %d are split", test.key, test.value, split, n)
		}
		if used > least*5/4+len(table.arena.chunks)*512 {
			t.Errorf("keys of %d, values of %d bytes: %d bytes for %d", test.key, test.value, used, least)
		}
	}
}
