package ingest

import "testing"

// A run takes a window for keys, and two windows that hold the largest entry.
func TestBulkLoad_AMergeTakesAboutItsMemory(t *testing.T) {
	t.Parallel()
	const window = 512 << 10
	for _, memory := range []int64{1 << 10, 4 << 20, 64 << 20, 1 << 30} {
		for _, largest := range []int64{0, 100, 600 << 10, 2 << 20, 30 << 20, 1 << 30} {
			l := loader{memory: memory, largest: largest}
			n := l.fanIn()
			takes := int64(n) * (window + 2*max(window, largest))
			if most := 3*max(memory, mergeMin*runMemory) + 4*largest; n < 2 || takes > most {
				t.Errorf("memory %d, entries of %d: %d runs at once take %d", memory, largest, n, takes)
			}
			if least := max(mergeMin, int(memory/runMemory)); largest <= 100 && n != least {
				t.Errorf("memory %d, small entries: %d runs at once, want %d", memory, n, least)
			}
		}
	}
}
