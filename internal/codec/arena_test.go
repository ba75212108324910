package codec

import (
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/invariant"
)

func TestArena_KeepsWhatItGaveUntilReset(t *testing.T) {
	t.Parallel()
	var a Arena
	for round := range 3 {
		var all [][]byte
		for i := range 400 {
			b := a.Alloc(i * 97 % 20_000)
			for j := range b {
				b[j] = byte(i)
			}
			a.Filled(len(b))
			all = append(all, b)
		}
		for i, b := range all {
			if len(b) != i*97%20_000 || cap(b) != len(b) {
				t.Fatalf("round %d: %d bytes with room for %d, want %d", round, len(b), cap(b), i*97%20_000)
			}
			for _, got := range b {
				if got != byte(i) {
					t.Fatalf("round %d: piece %d has a byte of another", round, i)
				}
			}
		}
		last := a.Alloc(1)
		last[0] = 1
		if a.Filled(1); !a.Reset() {
			t.Fatal("Reset takes a piece for one that is not filled yet")
		}
		if invariant.Enabled && last[0] == 1 {
			t.Fatal("what was borrowed is not spoiled by Reset")
		}
	}
}

func TestArena_NilGivesMemoryForGood(t *testing.T) {
	t.Parallel()
	var a *Arena
	if b := a.Alloc(10); len(b) != 10 {
		t.Fatalf("%d bytes, want 10", len(b))
	}
}

// A piece that is still written to must not be another arena's.
func TestArena_ResetKeepsAChunkThatIsWrittenTo(t *testing.T) {
	t.Parallel()
	var a Arena
	late := a.Alloc(1000)
	for range 3 {
		a.Alloc(1000)
		a.Filled(1000)
		if a.Reset() {
			t.Fatal("Reset reports that all pieces are filled")
		}
		for range 100 {
			next := a.Alloc(1000)
			late[0], next[0] = 1, 2
			if a.Filled(1000); late[0] != 1 {
				t.Fatal("a piece is another's before it is filled")
			}
		}
	}
	a.Filled(1000)
	if !a.Reset() {
		t.Error("Reset reports that a piece is not filled")
	}
	var none *Arena
	none.Filled(1000)
}

func TestArena_ServesManyGoroutines(t *testing.T) {
	t.Parallel()
	var a Arena
	var all sync.WaitGroup
	for g := range byte(4) {
		all.Go(func() {
			var mine [][]byte
			for range 500 {
				b := a.Alloc(100)
				for j := range b {
					b[j] = g
				}
				a.Filled(len(b))
				mine = append(mine, b)
			}
			for _, b := range mine {
				for _, got := range b {
					if got != g {
						t.Errorf("a piece of %d has a byte of %d", g, got)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkArena(b *testing.B) {
	var a Arena
	b.Run("reset", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Alloc(1000)
			a.Filled(1000)
			a.Reset()
		}
	})
	b.Run("walk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Alloc(1000)
		}
	})
}
