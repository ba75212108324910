package memtable

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// TestJumps_FollowTheirDefinition compares the closed form of jumps with the
// rule. The jump of an entry leads to the entry before it. If the two jumps
// before it are equally long, it leads to the target of the second one.
func TestJumps_FollowTheirDefinition(t *testing.T) {
	t.Parallel()
	target := []uint32{0}
	for depth := uint32(1); depth < 5000; depth++ {
		p := depth - 1
		j := target[p]
		want := p
		if p > 0 && p-j == j-target[j] {
			want = target[j]
		}
		target = append(target, want)
		if got := depth - jumpSpan(depth); got != want {
			t.Fatalf("the jump from %d leads to %d, want %d", depth, got, want)
		}
	}
}

// chained returns a table with n versions of one key, at even sequence numbers
// from 2 on, and other keys between them.
func chained(t testing.TB, n int) (*Table, []byte) {
	table := New(Options{})
	key := []byte("counter")
	for i := 1; i <= n; i++ {
		set(t, table, "counter", fmt.Sprint(i), base.SeqNum(2*i))
		if i%100 == 0 {
			set(t, table, fmt.Sprint("other", i%1000), "", base.SeqNum(2*i))
		}
	}
	return table, key
}

func TestJumps_ReachOldVersionsInFewSteps(t *testing.T) {
	t.Parallel()
	n := 1 << 20
	if invariant.Enabled || testing.Short() {
		n = 1 << 15
	}
	table, key := chained(t, n)
	r := rng(t, 0)
	limit := 3 * bits.Len(uint(n))
	for range 2000 {
		at := base.SeqNum(r.Uint64N(uint64(2*n) + 2))
		v, _, seq, ok := table.Get(key, hashOf(key), at)
		want := at &^ 1
		if ok != (want > 0) {
			t.Fatalf("at %d: found is %v", at, ok)
		}
		if ok && (seq != want || string(v) != fmt.Sprint(want/2)) {
			t.Fatalf("at %d: version %d of value %q, want %d", at, seq, v, want)
		}
		if steps := stepsTo(table, key, at); steps > limit {
			t.Fatalf("%d steps to version %d of %d, want at most %d", steps, at/2, n, limit)
		}
	}
}

// stepsTo counts the links that visibleAt follows.
func stepsTo(t *Table, key []byte, at base.SeqNum) int {
	e, steps := t.arena.at(t.find(key, uint32(hashOf(key)>>32))), 0
	for t.seq(e, e.word()) > at {
		steps++
		l := e.links(e.word())
		if l.next == 0 {
			break
		}
		if j := t.arena.at(l.jump); t.seq(j, j.word()) > at {
			e = j
		} else {
			e = t.arena.at(l.next)
		}
	}
	return steps
}

func BenchmarkGetOldVersion(b *testing.B) {
	table, key := chained(b, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	b.ResetTimer()
	for range b.N {
		if _, _, _, ok := table.Get(key, hashOf(key), 2+base.SeqNum(r.Uint64N(2<<20))); !ok {
			b.Fatal("not found")
		}
	}
}
