package bench

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stoatdb/stoat"
)

// spaceEvery is the time between two samples of the directory's size.
const spaceEvery = 50 * time.Millisecond

// A spaceUse is the space of a database and its statistics at that time.
type spaceUse struct {
	bytes int64 // allocated by all files
	stats stoat.Stats
}

// A spaceWatch keeps the largest size of a directory.
type spaceWatch struct {
	db   *stoat.DB
	dir  string
	quit chan struct{}
	wg   sync.WaitGroup
	once sync.Once

	mu   sync.Mutex
	peak spaceUse
}

func watchSpace(db *stoat.DB, dir string) *spaceWatch {
	s := &spaceWatch{db: db, dir: dir, quit: make(chan struct{})}
	s.wg.Go(func() {
		ticker := time.NewTicker(spaceEvery)
		defer ticker.Stop()
		for {
			select {
			case <-s.quit:
				return
			case <-ticker.C:
				s.sample()
			}
		}
	})
	return s
}

// sample raises the peak to the current size. It does nothing if a file is
// deleted during the sample.
func (s *spaceWatch) sample() {
	if _, bytes, err := diskUsage(s.dir); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if bytes > s.peak.bytes {
			s.peak = spaceUse{bytes, s.db.Stats()}
		}
	}
}

// restart resets the peak.
func (s *spaceWatch) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak = spaceUse{}
}

func (s *spaceWatch) stop() {
	s.once.Do(func() { close(s.quit); s.wg.Wait() })
}

// churned is the result of a churn.
type churned struct {
	took          time.Duration
	live          int64 // bytes of existing keys and values
	user, written int64 // bytes committed, and bytes written to devices
	peak          spaceUse
	atRest        int64
	stats         stoat.Stats
}

// print prints the result. Space is a multiple of the live data.
func (c *churned) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	part := func(n int64) string { return three(float64(n) / float64(c.live)) }
	p := &c.peak.stats
	line("load and overwriting", "%s", duration(float64(c.took)))
	line("live data", "%s", size(c.live))
	line("space at the peak", "%s × live: value files %s with known garbage %s, tables %s, log %s, obsolete files %s, the rest unfinished files",
		part(c.peak.bytes), part(p.ValueBytes), part(p.ValueGarbage), part(p.TableBytes), part(p.Log.BytesOnDisk), part(p.GarbageBytes))
	line("space at rest", "%s × live: value files %s with known garbage %s, tables %s, log %s",
		part(c.atRest), part(c.stats.ValueBytes), part(c.stats.ValueGarbage), part(c.stats.TableBytes), part(c.stats.Log.BytesOnDisk))
	line("written", "%s bytes per user byte: log %s, commits to value files %s, flushes %s, compaction %s, garbage collection %s, gathering %s",
		three(float64(c.written)/float64(c.user)), c.each(c.stats.Log.BytesWritten), c.each(c.stats.ApartBytes),
		c.each(c.stats.FlushedBytes), c.each(c.stats.CompactedBytes), c.each(c.stats.CollectedBytes),
		c.each(c.stats.GatheredBytes))
	l := &c.stats.Latencies
	line("background jobs", "%s flushes in %s, %s compactions in %s, %s collections of %s files in %s",
		count(l.Flush.Count), duration(float64(l.Flush.Total)), count(l.Compaction.Count), duration(float64(l.Compaction.Total)),
		count(l.Collection.Count), count(c.stats.Collections), duration(float64(l.Collection.Total)))
	line("waits of commits", "%s, for %s in total", count(c.stats.Waits), duration(float64(c.stats.WaitTime)))
}

// each formats n as bytes per user byte.
func (c *churned) each(n int64) string { return three(float64(n) / float64(c.user)) }
