package memtable

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

var seedFlag = flag.Uint64("memtable.seed", 1, "seed of the randomized tests")

// rng returns the generator of a randomized test and prints how to repeat a
// failure.
func rng(t testing.TB, run uint64) *rand.Rand {
	seed := *seedFlag + run
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("reproduce: go test -run '^%s$' ./internal/memtable -args -memtable.seed=%d", t.Name(), *seedFlag)
		}
	})
	return rand.New(rand.NewPCG(seed, 0x5704))
}

const hashSeed = 42

func hashOf(key []byte) uint64 { return base.Hash(key, hashSeed) }

func set(t testing.TB, table *Table, key, value string, seq base.SeqNum) {
	t.Helper()
	err := table.Set([]byte(key), []byte(value), hashOf([]byte(key)), base.Meta{Kind: base.KindSet}, seq)
	if err != nil {
		t.Fatal(err)
	}
}

// counting counts the blocks that are out.
type counting struct {
	Memory
	mu     sync.Mutex
	blocks map[*byte]int
	bytes  int64
	fail   func(n int) bool
}

func newCounting() *counting { return &counting{Memory: Heap(), blocks: map[*byte]int{}} }

func (c *counting) Alloc(n int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil && c.fail(n) {
		return nil, fmt.Errorf("no memory for %d bytes", n)
	}
	b, err := c.Memory.Alloc(n)
	if err != nil {
		return nil, err
	}
	c.blocks[&b[0]] = n
	c.bytes += int64(n)
	return b, nil
}

func (c *counting) Free(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[&b[0]] != len(b) {
		panic("freed what was not allocated")
	}
	delete(c.blocks, &b[0])
	c.bytes -= int64(len(b))
	c.Memory.Free(b)
}

func (c *counting) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// shown is one entry out of an iterator.
type shown struct {
	key, value []byte
	meta       base.Meta
	seq        base.SeqNum
}

// drain returns what it shows from where it is, at most limit entries, asking
// for want at a time.
func drain(t testing.TB, it *Iter, want, limit int) []shown {
	t.Helper()
	var out []shown
	var b iter.Batch
	for len(out) < limit {
		b.Want = min(want, limit-len(out))
		if err := it.Fill(&b); err != nil {
			t.Fatal(err)
		}
		if b.N > b.Want {
			t.Fatalf("Fill gave %d entries for %d", b.N, b.Want)
		}
		if b.N == 0 {
			break
		}
		for i := range b.N {
			out = append(out, shown{b.Keys[i], b.Vals[i], b.Metas[i], b.Seqs[i]})
		}
	}
	return out
}

func checkScan(t testing.TB, m *model, it *Iter, key []byte, reverse bool, want, limit int) {
	t.Helper()
	it.Seek(key)
	got := drain(t, it, want, limit)
	exp := m.scan(key, reverse)
	if len(exp) > limit {
		exp = exp[:limit]
	}
	if len(got) != len(exp) {
		t.Fatalf("scan from %q (reverse %v) shows %d entries, want %d", key, reverse, len(got), len(exp))
	}
	for i, g := range got {
		if err := m.same(exp[i], g.key, g.value, g.meta, g.seq); err != nil {
			t.Fatalf("scan from %q (reverse %v), entry %d: %v", key, reverse, i, err)
		}
	}
}

// keyMaker makes keys of one shape, with many repetitions.
type keyMaker struct {
	name string
	make func(r *rand.Rand) []byte
}

var keyMakers = []keyMaker{
	{"short", func(r *rand.Rand) []byte {
		k := make([]byte, 1+r.IntN(3))
		for i := range k {
			k[i] = byte(r.IntN(3))
		}
		return k
	}},
	{"decimal", func(r *rand.Rand) []byte { return fmt.Appendf(nil, "user:%09d", r.IntN(2000)) }},
	{"tables", func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, "%s/2026-11-20/%06d", []string{"orders", "order_lines", "users-and-their-friends"}[r.IntN(3)], r.IntN(500))
	}},
	{"deep", func(r *rand.Rand) []byte {
		k := bytes.Repeat([]byte{0}, r.IntN(60))
		return append(k, byte(r.IntN(2)), byte(r.IntN(4)))
	}},
	{"nested", func(r *rand.Rand) []byte {
		// Groups within groups, each told apart after more than 12 bytes.
		var k []byte
		for range 1 + r.IntN(6) {
			k = fmt.Appendf(k, "level-of-the-key-%c/", 'a'+rune(r.IntN(2)))
		}
		return k
	}},
	{"random", func(r *rand.Rand) []byte {
		k := make([]byte, 16)
		for i := range k {
			k[i] = byte(r.Uint32())
		}
		return k
	}},
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
func compareAll(t *testing.T, r *rand.Rand, table *Table, m *model, key func(*rand.Rand) []byte, its *[2]Iter) {
	t.Helper()
	last := base.SeqNum(0)
	if n := len(m.versions); n > 0 {
		last = m.seq(m.versions[n-1])
	}
	for range 50 {
		k, at := key(r), base.SeqNum(r.Uint64N(uint64(last)+2))
		value, meta, seq, ok := table.Get(k, hashOf(k), at)
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
			checkScan(t, m, it, key(r), reverse, 1+r.IntN(12), 1+r.IntN(40))
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
	compareNewer(t, table, m, base.SeqNum(r.Uint64N(uint64(last)+2)))
}

func compareNewer(t *testing.T, table *Table, m *model, than base.SeqNum) {
	t.Helper()
	if m.pending {
		return
	}
	i := len(m.versions)
	table.Newer(than, func(hash uint32, r Ref) bool {
		i--
		v := m.versions[i]
		if string(table.Key(r)) != v.key || table.Seq(r) != v.seq || hash != uint32(hashOf([]byte(v.key))>>32) {
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

func TestTableAnswersLikeTheModel(t *testing.T) {
	t.Parallel()
	for run, maker := range keyMakers {
		t.Run(maker.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(run))
			mem := newCounting()
			table := New(Options{Memory: mem, ChunkSize: 256 << r.IntN(8), SizeHint: r.IntN(100)})
			pool := New(Options{Memory: mem, ChunkSize: 1 << 10})
			m := &model{}
			var its [2]Iter
			seq := base.SeqNum(0)
			for step := range 300 {
				seq += base.SeqNum(r.IntN(3)) / 2
				if step == 0 {
					seq = 1
				}
				if r.IntN(2) == 0 {
					k, v, meta := maker.make(r), randomValue(r), randomMeta(r)
					if err := table.Set(k, v, hashOf(k), meta, seq); err != nil {
						t.Fatal(err)
					}
					m.set(k, v, meta, seq)
				} else {
					seq++
					txn := &model{pending: true}
					fillPending(t, r, pool, txn, maker.make, r.IntN(60))
					compareAll(t, r, pool, txn, maker.make, &its)
					if err := table.AppendTable(pool, seq); err != nil {
						t.Fatal(err)
					}
					for _, v := range txn.newest() {
						m.set([]byte(v.key), []byte(v.value), v.meta, seq)
					}
					its[0].Close()
					its[1].Close()
					pool.Reset()
				}
				if step%10 == 0 {
					compareAll(t, r, table, m, maker.make, &its)
				}
			}
			compareAll(t, r, table, m, maker.make, &its)
			its[0].Close()
			its[1].Close()
			table.Release()
			pool.Release()
			if mem.held() != 0 {
				t.Fatalf("%d bytes are held after Release", mem.held())
			}
		})
	}
}

func fillPending(t *testing.T, r *rand.Rand, table *Table, m *model, key func(*rand.Rand) []byte, n int) {
	t.Helper()
	for range n {
		k, v, meta := key(r), randomValue(r), randomMeta(r)
		if err := table.Set(k, v, hashOf(k), meta, 0); err != nil {
			t.Fatal(err)
		}
		m.set(k, v, meta, 0)
	}
}

func TestStampedTableAnswersLikeTheModel(t *testing.T) {
	t.Parallel()
	for run, maker := range keyMakers {
		t.Run(maker.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(run))
			table := New(Options{ChunkSize: 1 << 10})
			m := &model{pending: true}
			var its [2]Iter
			for range 20 {
				fillPending(t, r, table, m, maker.make, r.IntN(100))
				compareAll(t, r, table, m, maker.make, &its)
			}
			table.Stamp(77)
			m.stamp = 77
			compareAll(t, r, table, m, maker.make, &its)
			if _, _, _, ok := table.Get([]byte(m.versions[0].key), hashOf([]byte(m.versions[0].key)), 76); ok {
				t.Fatal("a snapshot before the stamp sees an entry")
			}
		})
	}
}
