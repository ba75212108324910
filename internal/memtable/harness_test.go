package memtable

import (
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

// counting counts the blocks in use.
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
		return nil, fmt.Errorf("%d bytes: %w", n, errNoMemory)
	}
	b, err := c.Memory.Alloc(n)
	if err != nil {
		return nil, err
	}
	// Blocks have arbitrary contents, so a table must not rely on zeros.
	b[0] = 0xa5
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
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

// failWhen makes those allocations fail for which fail returns true.
func (c *counting) failWhen(fail func(n int) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

func (c *counting) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// shown is one entry that an iterator showed.
type shown struct {
	key, value []byte
	meta       base.Meta
	seq        base.SeqNum
}

// drain returns at most limit entries from the position of it, asking for want
// at a time.
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
			out = append(out, shown{b.Entries[i].Key, b.Entries[i].Value, b.Entries[i].Meta, b.Entries[i].Seq})
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
