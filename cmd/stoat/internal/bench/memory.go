package bench

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryEvery is the time between two samples of the process's memory.
const memoryEvery = 50 * time.Millisecond

// A footprint is the resident memory of the process in bytes: anonymous memory,
// and mapped file pages, which the system can drop and read again.
type footprint struct{ anonymous, mapped int64 }

// A memoryWatch keeps the peaks of the footprint.
type memoryWatch struct {
	quit chan struct{}
	wg   sync.WaitGroup

	mu struct {
		sync.Mutex
		peak footprint
	}
}

// watchMemory starts a watch. It returns nil where the system does not report
// the footprint.
func watchMemory() *memoryWatch {
	if _, ok := readFootprint(); !ok {
		return nil
	}
	m := &memoryWatch{quit: make(chan struct{})}
	m.wg.Go(func() {
		ticker := time.NewTicker(memoryEvery)
		defer ticker.Stop()
		for {
			select {
			case <-m.quit:
				return
			case <-ticker.C:
				m.sample()
			}
		}
	})
	return m
}

// sample raises the peaks to the current footprint.
func (m *memoryWatch) sample() {
	f, _ := readFootprint()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.peak.anonymous = max(m.mu.peak.anonymous, f.anonymous)
	m.mu.peak.mapped = max(m.mu.peak.mapped, f.mapped)
}

// peak returns the peaks so far.
func (m *memoryWatch) peak() footprint {
	m.sample()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.peak
}

// stop ends the watch.
func (m *memoryWatch) stop() {
	if m != nil {
		close(m.quit)
		m.wg.Wait()
	}
}

// readFootprint reads the footprint, which only Linux reports.
func readFootprint() (footprint, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return footprint{}, false
	}
	return parseFootprint(string(status))
}

// parseFootprint parses the lines of the footprint, whose unit is KiB.
func parseFootprint(status string) (footprint, bool) {
	fields := colonFields(status)
	anonymous, ok1 := fields["RssAnon"]
	mapped, ok2 := fields["RssFile"]
	return footprint{anonymous << 10, mapped << 10}, ok1 && ok2
}

// deviceBytesWritten returns how many bytes this process has written to devices,
// which only Linux reports.
func deviceBytesWritten() (int64, bool) {
	counts, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	n, ok := colonFields(string(counts))["write_bytes"]
	return n, ok
}

// colonFields parses lines of "name: number".
func colonFields(text string) map[string]int64 {
	fields := map[string]int64{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if len(words) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(words[0], 10, 64); err == nil {
			fields[name] = n
		}
	}
	return fields
}
