package device

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// memory measures copying, and accesses that each wait for the one before.
func memory(limits map[string]float64, length time.Duration) {
	const copied = 64 << 20
	from, to := make([]byte, copied), make([]byte, copied)
	for i := range from {
		from[i] = byte(i)
	}
	var n int
	began := time.Now()
	for time.Since(began) < length {
		copy(to, from)
		n++
	}
	limits["memory_copy_gb_per_s"] = float64(n) * copied / time.Since(began).Seconds() / 1e9
	runtime.KeepAlive(to)
	limits["memory_access_ns"] = dependentAccess(length)
}

// dependentAccess follows a cycle through memory far larger than the caches,
// one hop in each cache line.
func dependentAccess(length time.Duration) float64 {
	const line, lines = 64 / 4, 256 << 20 / 64
	next := make([]uint32, lines*line)
	for i := range lines {
		next[i*line] = uint32(i * line)
	}
	// Sattolo's shuffle makes one cycle of all lines.
	r := rand.New(rand.NewPCG(1, 2))
	for i := lines - 1; i > 0; i-- {
		j := r.IntN(i)
		next[i*line], next[j*line] = next[j*line], next[i*line]
	}
	const burst = 1 << 14
	at, hops := uint32(0), 0
	began := time.Now()
	for time.Since(began) < length {
		for range burst {
			at = next[at]
		}
		hops += burst
	}
	elapsed := time.Since(began)
	runtime.KeepAlive(at) // or the compiler might leave the hops out
	return float64(elapsed) / float64(hops)
}

// harness measures what a read costs before and after the store is asked:
// drawing and writing the key, and checking both ends of a value in the
// cache.
func harness(limits map[string]float64, length time.Duration) {
	limits["harness_read_ns"] = workload.HarnessCost(length)
}
