package values

import (
	"math/rand/v2"
	"testing"
)

// The test compares lookups with a map, over offsets spaced evenly, in clusters, and
// alone.
func TestRemap_FindsItsEntriesAndNoOthers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 4))
	const end = 1 << 20
	for _, count := range []int{1, 2, 5, 100, 5000} {
		for _, spread := range []int64{1, 3, 1000, offsetMax / unit / 5001} {
			want := map[int64]int64{}
			var moves []move
			from := int64(fileHeaderSize)
			for range count {
				from += unit * (1 + rng.Int64N(spread))
				if rng.IntN(50) == 0 {
					from += unit * 100
				}
				if from > offsetMax {
					break
				}
				to := unit * (fileHeaderSize/unit + rng.Int64N(1000))
				moves, want[from] = append(moves, move{from, to}), to
			}
			if len(moves) == 0 {
				continue
			}
			rng.Shuffle(len(moves), func(i, j int) { moves[i], moves[j] = moves[j], moves[i] })
			shape, section := buildRemap(moves)
			m, err := decodeRemap(shape, section, end, end)
			if err != nil {
				t.Fatal(err)
			}
			for from, to := range want {
				if got, ok := m.find(from); !ok || got != to {
					t.Fatalf("%d of %d: %d, %v, want %d", from, count, got, ok, to)
				}
				for _, near := range []int64{from - unit, from + unit, from + 1<<33} {
					got, ok := m.find(near)
					if want, there := want[near]; near <= offsetMax && near >= 0 && (ok != there || got != want) {
						t.Fatalf("%d, beside %d: %d, %v", near, from, got, ok)
					}
				}
			}
			if perEntry := len(section) / len(moves); len(moves) > 10 && perEntry > 16 {
				t.Fatalf("%d bytes for an entry", perEntry)
			}
		}
	}
}
