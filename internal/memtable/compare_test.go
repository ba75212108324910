package memtable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

// keyMaker makes keys of one shape, with many repetitions.
type keyMaker struct {
	name string
	make func(r *rand.Rand) []byte
	hash func(key []byte) uint64
}

var keyMakers = []keyMaker{
	{"short", func(r *rand.Rand) []byte {
		k := make([]byte, 1+r.IntN(3))
		for i := range k {
			k[i] = byte(r.IntN(3))
		}
		return k
	}, hashOf},
	{"decimal", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "user:%09d", r.IntN(2000)) }, hashOf},
	{"tables", func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, "%s/2026-11-20/%06d", []string{"orders", "order_lines", "users-and-their-friends"}[r.IntN(3)], r.IntN(500))
	}, hashOf},
	{"deep", func(r *rand.Rand) []byte {
		k := bytes.Repeat([]byte{0}, r.IntN(60))
		return append(k, byte(r.IntN(2)), byte(r.IntN(4)))
	}, hashOf},
	{"nested", func(r *rand.Rand) []byte {
		// Nested groups; each needs more than 12 bytes to tell keys apart.
		var k []byte
		for range 1 + r.IntN(6) {
			k = fmt.Appendf(k, "level-of-the-key-%c/", 'a'+rune(r.IntN(2)))
		}
		return k
	}, hashOf},
	{"colliding", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%d", r.IntN(200)) },
		func(key []byte) uint64 { return [4]uint64{0, 5 << 32, 1 << 63, ^uint64(0)}[key[0]%4] }},
	{"random", func(r *rand.Rand) []byte {
		k := make([]byte, 16)
		for i := range k {
			k[i] = byte(r.Uint32())
		}
		return k
	}, hashOf},
}

func randomMeta(r *rand.Rand) base.Meta {
	m := base.Meta{Kind: base.KindSet}
	if r.IntN(8) == 0 {
		m.Kind = base.KindDelete
	}
	if r.IntN(4) == 0 {
		m.ExpiresAt = r.Uint64()
	}
	if r.IntN(4) == 0 {
		m.User = byte(r.Uint32())
	}
	return m
}

func randomValue(r *rand.Rand) []byte {
	n := r.IntN(40)
	if r.IntN(50) == 0 {
		n = r.IntN(6000)
	}
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(r.Uint32())
	}
	return v
}

// compareAll compares all that a table shows with the model.
func compareAll(t *testing.T, r *rand.Rand, table *Table, m *model, keys keyMaker, its *[2]Iter) {
	t.Helper()
	last := base.SeqNum(0)
	if n := len(m.versions); n > 0 {
		last = m.seq(m.versions[n-1])
	}
	for range 50 {
		k, at := keys.make(r), base.SeqNum(r.Uint64N(uint64(last)+2))
		value, meta, seq, ok := table.Get(k, keys.hash(k), at)
		exp, expOK := m.get(k, at)
		if ok != expOK {
			t.Fatalf("Get(%q) at %d is %v, want %v", k, at, ok, expOK)
		}
		if !ok {
			continue
		}
		if err := m.same(exp, k, value, meta, seq); err != nil {
			t.Fatalf("Get(%q) at %d: %v", k, at, err)
		}
	}
	for i, reverse := range []bool{false, true} {
		it := &its[i]
		it.Init(table, reverse)
		checkScan(t, m, it, nil, reverse, 1+r.IntN(iter.BatchSize), 1<<30)
		for range 5 {
			checkScan(t, m, it, keys.make(r), reverse, 1+r.IntN(12), 1+r.IntN(40))
		}
		checkScan(t, m, it, []byte{}, reverse, 7, 20)
		checkScan(t, m, it, []byte{0xff, 0xff}, reverse, 7, 20)
	}
	newest := m.newest()
	i := 0
	for e := range table.Entries {
		if err := m.same(newest[i], e.Key, e.Value, e.Meta, e.Seq); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		i++
	}
	if i != len(newest) || table.Keys() != len(newest) {
		t.Fatalf("%d entries, Keys() %d, want %d", i, table.Keys(), len(newest))
	}
	if table.LiveLen() != len(m.versions) {
		t.Fatalf("LiveLen is %d, want %d", table.LiveLen(), len(m.versions))
	}
	data := int64(0)
	for _, v := range m.versions {
		data += int64(len(v.key) + len(v.value))
	}
	if table.DataBytes() != data {
		t.Fatalf("DataBytes is %d, want %d", table.DataBytes(), data)
	}
	if !m.pending && table.ShownBytes() != data {
		t.Fatalf("ShownBytes is %d, want %d", table.ShownBytes(), data)
	}
	compareNewer(t, table, m, keys, base.SeqNum(r.Uint64N(uint64(last)+2)))
}

func compareNewer(t *testing.T, table *Table, m *model, keys keyMaker, than base.SeqNum) {
	t.Helper()
	if m.pending {
		return
	}
	i := len(m.versions)
	table.Newer(than, func(hash uint32, r Ref) bool {
		i--
		v := m.versions[i]
		if string(table.Key(r)) != v.key || table.Seq(r) != v.seq || hash != uint32(keys.hash([]byte(v.key))>>32) {
			t.Fatalf("Newer(%d) shows %q at %d, want %q at %d", than, table.Key(r), table.Seq(r), v.key, v.seq)
		}
		return true
	})
	if i > 0 && m.versions[i-1].seq > than {
		t.Fatalf("Newer(%d) ends before %q at %d", than, m.versions[i-1].key, m.versions[i-1].seq)
	}
	if i < len(m.versions) && m.versions[i].seq <= than {
		t.Fatalf("Newer(%d) shows %d", than, m.versions[i].seq)
	}
}
