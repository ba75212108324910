package device

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// blockSize is the size in bytes of a page, of a random read and of an append.
// It is also the alignment of direct access.
const blockSize = 4096

// memory measures the first touch of new memory, copies, and dependent accesses.
func memory(limits map[string]float64, length time.Duration, size int64) error {
	var err error
	if limits["memory_touch_gb_per_s"], err = firstTouch(min(size, 512<<20)); err != nil {
		return err
	}
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
	return nil
}

// firstTouch writes to each page of size bytes of new memory. On a virtual
// machine that returns free memory, the host must provide each page. Every new
// buffer, cache and file page of a store has that cost.
func firstTouch(size int64) (gigabytesPerSecond float64, err error) {
	fresh, err := measure.OffHeap(int(size))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for i := 0; i < len(fresh); i += blockSize {
		fresh[i] = 1
	}
	return float64(size) / time.Since(began).Seconds() / 1e9, nil
}

// dependentAccess follows a cycle through memory far larger than the caches,
// with one hop per cache line. It returns nanoseconds per hop.
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
	runtime.KeepAlive(at) // otherwise the compiler might remove the hops
	return float64(elapsed) / float64(hops)
}

// harness measures the harness's share of reads.
func harness(limits map[string]float64, length time.Duration) error {
	cost, err := workload.MeasureHarness(length)
	limits["harness_read_ns"] = cost.GetNanos
	limits["harness_scan_ns"] = cost.ScanNanos
	limits["harness_keys_ns"] = cost.KeysNanos
	for size, nanos := range cost.WholeNanos {
		limits[fmt.Sprintf("harness_whole_%d_ns", size)] = nanos
	}
	return err
}
