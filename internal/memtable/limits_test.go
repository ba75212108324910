package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

func TestSet_RefusesKeysAndValuesOutOfRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keyLen   int
		valueLen uint64
		ok       bool
	}{
		{0, 0, false},
		{1, 0, true},
		{base.MaxKeySize, 0, true},
		{base.MaxKeySize + 1, 0, false},
		{1, base.MaxValueSize, true},
		{1, base.MaxValueSize + 1, false},
	} {
		if err := checkSizes(c.keyLen, c.valueLen); (err == nil) != c.ok {
			t.Errorf("key of %d bytes, value of %d: %v", c.keyLen, c.valueLen, err)
		}
	}
	table := New(Options{})
	for _, n := range []int{0, base.MaxKeySize + 1} {
		if err := table.Set(make([]byte, n), nil, 1, base.Meta{Kind: base.KindSet}, 0); err == nil {
			t.Errorf("a key of %d bytes was taken", n)
		}
	}
	if table.Len() != 0 || table.Bytes() != 0 {
		t.Fatalf("refused keys left %d entries, %d bytes", table.Len(), table.Bytes())
	}
}

// TestEntry_AnySize puts entries around every size at which their place in
// memory changes.
func TestEntry_AnySize(t *testing.T) {
	t.Parallel()
	mem := newCounting()
	m, pending := &model{}, &model{pending: true}
	table := New(Options{Memory: mem, ChunkSize: 4 << 10})
	txn := New(Options{Memory: mem, ChunkSize: 256})
	seq := base.SeqNum(0)
	for _, size := range []int{0, 1, 7, 8, 200, 255, 256, 257, 4 << 10, chunkMax/ownShare - 40, chunkMax / ownShare, chunkMax/ownShare + 1, chunkMax, 3*chunkMax + 5} {
		keyLens := []int{1, 15, 300, base.MaxKeySize}
		if size > chunkMax/ownShare {
			keyLens = keyLens[1:2]
		}
		for _, keyLen := range keyLens {
			key := bytes.Repeat([]byte{'k'}, keyLen)
			value := strings.Repeat(string(rune('a'+size%26)), size)
			meta := base.Meta{Kind: base.KindSet, ExpiresAt: uint64(size), User: byte(size)}
			if err := txn.Set(key, []byte(value), hashOf(key), meta, 0); err != nil {
				t.Fatal(err)
			}
			pending.set(key, []byte(value), meta, 0)
			seq++
			if err := table.Set(key, []byte(value), hashOf(key), meta, seq); err != nil {
				t.Fatal(err)
			}
			m.set(key, []byte(value), meta, seq)
		}
		seq++
		if err := table.AppendTable(txn, seq, nil); err != nil {
			t.Fatal(err)
		}
		for _, v := range pending.newest() {
			m.set([]byte(v.key), []byte(v.value), v.meta, seq)
		}
		for _, reverse := range []bool{false, true} {
			var it Iter
			it.Init(table, reverse)
			checkScan(t, m, &it, nil, reverse, 5, 1<<30)
			it.Init(txn, reverse)
			checkScan(t, pending, &it, nil, reverse, 5, 1<<30)
			it.Close()
		}
	}
	if table.Bytes()+txn.Bytes() != mem.held() {
		t.Fatalf("tables say they hold %d and %d bytes; they hold %d", table.Bytes(), txn.Bytes(), mem.held())
	}
	txn.Reset()
	if txn.Bytes() > 16<<10 {
		t.Fatalf("a reset table holds %d bytes", txn.Bytes())
	}
	table.Release()
	txn.Release()
	if mem.held() != 0 {
		t.Fatalf("%d bytes are held after Release", mem.held())
	}
}

func TestSet_RefusesDescendingSequenceNumbers(t *testing.T) {
	t.Parallel()
	table, txn := New(Options{}), New(Options{})
	set(t, txn, "k", "v", 0)
	if err := table.AppendTable(txn, 0, nil); err == nil {
		t.Fatal("entries were appended as pending")
	}
	key := []byte("k")
	for i, seq := range []base.SeqNum{5, 4, 5, 0, 6} {
		err := table.Set(key, nil, hashOf(key), base.Meta{Kind: base.KindSet}, seq)
		if (err == nil) != (i%2 == 0) {
			t.Fatalf("write %d under number %d: %v", i, seq, err)
		}
	}
	for _, seq := range []base.SeqNum{5, 6} {
		if err := table.AppendTable(txn, seq, nil); (err == nil) != (seq == 6) {
			t.Fatalf("append under number %d: %v", seq, err)
		}
	}
	if table.Len() != 4 {
		t.Fatalf("%d entries, want 4", table.Len())
	}
	if err := table.AppendTable(txn, 8, nil); err != nil {
		t.Fatal(err)
	}
	if err := table.Set(key, nil, hashOf(key), base.Meta{Kind: base.KindSet}, 7); err == nil {
		t.Fatal("a write under number 7 was taken after 8")
	}
}

// TestIndex_OutgrownStaysReadable finds keys in an outgrown index, as a reader
// does that loaded it just before.
func TestIndex_OutgrownStaysReadable(t *testing.T) {
	t.Parallel()
	table := New(Options{Memory: newCounting()})
	for i := range 15 {
		set(t, table, fmt.Sprint(i), "", 1)
	}
	old := table.index.Load()
	for i := 15; i < 5000; i++ {
		set(t, table, fmt.Sprint(i), "", 2)
	}
	if table.index.Load() == old {
		t.Fatal("the index did not grow")
	}
	for i := range 15 {
		key := fmt.Append(nil, i)
		r := old.find(&table.arena, key, uint32(hashOf(key)>>32))
		if r == 0 || string(table.Key(r)) != string(key) {
			t.Fatalf("the old index leads from key %s to entry %d", key, r)
		}
	}
}

// TestIndex_IsMadeOnceForEachSize adds keys one by one. The first index is the smallest one, and
// each further one is a copy of twice the size.
func TestIndex_IsMadeOnceForEachSize(t *testing.T) {
	t.Parallel()
	const keys = 5000
	table := New(Options{Memory: newCounting()})
	made, last := 0, (*index)(nil)
	for i := range keys {
		set(t, table, fmt.Sprint(i), "", 1)
		if ix := table.index.Load(); ix != last {
			made, last = made+1, ix
		}
	}
	if want := int(slotBits(keys)) - slotBitsMin + 1; made != want {
		t.Errorf("%d keys took %d indexes, want %d", keys, made, want)
	}
}

func TestTable_EmptyIsSmall(t *testing.T) {
	t.Parallel()
	table := New(Options{SizeHint: 1 << 20})
	if table.Bytes() != 0 {
		t.Fatalf("a new table holds %d bytes", table.Bytes())
	}
	set(t, table, "k", "v", 1)
	// One chunk and one segment of the insertion order.
	if table.Bytes() > chunkSizeDefault+pairSize<<orderBitsMax {
		t.Fatalf("a table of one entry holds %d bytes", table.Bytes())
	}
}

func TestTable_DeletionsAndEmptyValuesAreEntries(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	key := []byte("k")
	set(t, table, "k", "", 1)
	if v, _, _, ok := table.Get(key, hashOf(key), 1); !ok || v == nil || len(v) != 0 {
		t.Fatalf("an empty value reads as %v, %v", v, ok)
	}
	if err := table.Set(key, nil, hashOf(key), base.Meta{Kind: base.KindDelete}, 2); err != nil {
		t.Fatal(err)
	}
	if _, m, seq, ok := table.Get(key, hashOf(key), 2); !ok || m.Kind != base.KindDelete || seq != 2 {
		t.Fatalf("a deletion reads as %+v at %d, %v", m, seq, ok)
	}
	if _, m, seq, ok := table.Get(key, hashOf(key), 1); !ok || m.Kind != base.KindSet || seq != 1 {
		t.Fatalf("before the deletion: %+v at %d, %v", m, seq, ok)
	}
	if _, _, _, ok := table.Get(key, hashOf(key), 0); ok {
		t.Fatal("a snapshot before the first version sees one")
	}
}

var errNoMemory = errors.New("no memory")

// TestFailedWrites_ChangeNothing fails every allocation once and compares the
// table with the model after each failure.
func TestFailedWrites_ChangeNothing(t *testing.T) {
	t.Parallel()
	r := rng(t, 0)
	keys := keyMakers[1]
	mem := newCounting()
	table := New(Options{Memory: mem, ChunkSize: 256, TailMax: 100})
	txn := New(Options{ChunkSize: 256})
	m := &model{}
	var its [2]Iter
	failures := 0
	for seq := base.SeqNum(1); seq < 60; seq++ {
		pending := &model{pending: true}
		txn.Reset()
		fillPending(t, r, txn, pending, keys, 1+r.IntN(60))
		for allowed := 0; ; allowed++ {
			left, mark := allowed, table.arena.mark()
			mem.failWhen(func(int) bool { left--; return left < 0 })
			err := table.AppendTable(txn, seq, nil)
			mem.failWhen(nil)
			if err == nil {
				break
			}
			if table.arena.mark() != mark {
				t.Fatalf("a failed write leaves the arena at %+v, want %+v", table.arena.mark(), mark)
			}
			if !errors.Is(err, errNoMemory) {
				t.Fatal(err)
			}
			failures++
			compareAll(t, r, table, m, keys, &its)
		}
		for _, v := range pending.newest() {
			m.set([]byte(v.key), []byte(v.value), v.meta, seq)
		}
		k, v := keys.make(r), randomValue(r)
		mem.failWhen(func(int) bool { return true })
		err := table.Set(k, v, keys.hash(k), base.Meta{Kind: base.KindSet}, seq)
		mem.failWhen(nil)
		if err == nil {
			m.set(k, v, base.Meta{Kind: base.KindSet}, seq)
		} else {
			failures++
		}
	}
	compareAll(t, r, table, m, keys, &its)
	if failures < 10 {
		t.Fatalf("only %d failures", failures)
	}
	its[0].Close()
	its[1].Close()
	table.Release()
	if mem.held() != 0 {
		t.Fatalf("%d bytes are held after Release", mem.held())
	}
}

// TestIterator_ReportsFailedAllocation makes the allocation for sorting fail.
// The iterator reports the error, and the next one works again.
func TestIterator_ReportsFailedAllocation(t *testing.T) {
	t.Parallel()
	mem := newCounting()
	table := New(Options{Memory: mem, SizeHint: 8000})
	m := &model{}
	for i := range 5000 {
		k := benchKey(nil, uint64(i))
		if err := table.Set(k, k, hashOf(k), base.Meta{Kind: base.KindSet}, 1); err != nil {
			t.Fatal(err)
		}
		m.set(k, k, base.Meta{Kind: base.KindSet}, 1)
	}
	held := mem.held()
	for allowed := range 3 {
		left := allowed
		mem.failWhen(func(int) bool { left--; return left < 0 })
		var it Iter
		it.Init(table, false)
		it.Seek(nil)
		err := it.Fill(&iter.Batch{Want: 1})
		mem.failWhen(nil)
		if allowed < 2 {
			if !errors.Is(err, errNoMemory) {
				t.Fatalf("with %d allocations Fill says %v", allowed, err)
			}
			if mem.held() != held {
				t.Fatalf("failed sorting holds %d bytes", mem.held()-held)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		checkScan(t, m, &it, nil, false, 32, 1<<30)
		it.Close()
	}
}
