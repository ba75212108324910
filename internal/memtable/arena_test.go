package memtable

import (
	"errors"
	"testing"
	"unsafe"

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

// staleSlots returns how many slots of the directories have an address although the arena has
// no chunk of that number.
func (a *arena) staleSlots() (n int) {
	for _, dir := range [][]unsafe.Pointer{unsafe.Slice(a.dir.Load(), a.dirLen), a.dirFirst[:]} {
		for number, address := range dir {
			if address != nil && number > len(a.chunks) {
				n++
			}
		}
	}
	return n
}

// The Go garbage collector may abort when it finds an address that the system has given to it
// since.
func TestArena_LeavesNoAddressOfMemoryThatItGaveBack(t *testing.T) {
	t.Parallel()
	const n = 1000
	fill := func(table *Table) {
		t.Helper()
		for i := range uint64(n) {
			key := benchKey(nil, i)
			if err := table.Set(key, benchValue, hashOf(key), base.Meta{Kind: base.KindSet}, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(table *Table, when string) {
		t.Helper()
		if n := table.arena.staleSlots(); n > 0 {
			t.Errorf("%s: %d addresses are left", when, n)
		}
		for _, c := range table.arena.spare[len(table.arena.spare):cap(table.arena.spare)] {
			if c.bytes != nil {
				t.Errorf("%s: the list of spare chunks has one that was taken", when)
			}
		}
	}
	mem := newCounting()
	table := New(Options{Memory: mem, ChunkSize: chunkSizeMin, Keep: 4 << 10})
	for range 2 {
		fill(table)
		if table.arena.dirLen == len(table.arena.dirFirst) {
			t.Fatal("the directory has not grown")
		}
		check(table, "after a use")
		table.Reset()
		check(table, "after Reset")
	}
	fill(table)
	table.Release()
	check(table, "after Release")

	source := New(Options{})
	fill(source)
	set(t, table, "key", "value", 1)
	mem.failWhen(func(n int) bool { return n >= 64<<10 })
	if err := table.AppendTable(source, 2, nil); !errors.Is(err, errNoMemory) {
		t.Fatal(err)
	}
	check(table, "after a failed AppendTable")
	mem.failWhen(nil)
	table.Release()
	source.Release()
}
