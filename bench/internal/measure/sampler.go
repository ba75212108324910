package measure

import (
	"slices"
	"sync"
	"time"
)

// A Point is a value at a time, in seconds since the sampler started.
type Point struct {
	Seconds float64 `json:"s"`
	Value   float64 `json:"v"`
}

// Peaks are the highest values a sampler saw.
type Peaks struct {
	AnonymousBytes int64
	FileBytes      int64
	SpaceBytes     int64 // allocated in the directory
}

// A Sampler samples memory, space and progress while a workload runs. It samples
// the directory less often than memory, because it must walk the directory.
type Sampler struct {
	began    time.Time
	dir      string
	progress func() float64
	stop     chan struct{}
	done     sync.WaitGroup

	mu struct {
		sync.Mutex
		peaks Peaks
		curve []Point
	}
}

const (
	memoryInterval = 20 * time.Millisecond // the time between memory samples
	curveEvery     = 5                     // memory samples per point of the curve
	spaceEvery     = 10                    // memory samples per walk of the directory
	curvePointsMax = 400                   // the most points of a curve
)

// StartSampler samples dir and, if progress is not nil, its value over time,
// until Stop.
func StartSampler(dir string, progress func() float64) *Sampler {
	s := &Sampler{began: time.Now(), dir: dir, progress: progress, stop: make(chan struct{})}
	s.done.Go(s.run)
	return s
}

func (s *Sampler) run() {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for n := 0; ; n++ {
		s.sample(n%spaceEvery == 0, n%curveEvery == 0)
		select {
		case <-tick.C:
		case <-s.stop:
			s.sample(true, true)
			return
		}
	}
}

func (s *Sampler) sample(withSpace, withCurve bool) {
	m := ProcessMemory()
	var space Space
	if withSpace {
		// A failed walk leaves the space zero, and the next walk tries again.
		// The final size is measured elsewhere, with its error.
		space, _ = DirSpace(s.dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.mu.peaks
	p.AnonymousBytes = max(p.AnonymousBytes, m.AnonymousBytes)
	p.FileBytes = max(p.FileBytes, m.FileBytes)
	p.SpaceBytes = max(p.SpaceBytes, space.AllocatedBytes)
	if withCurve && s.progress != nil {
		s.mu.curve = append(s.mu.curve, Point{time.Since(s.began).Seconds(), s.progress()})
	}
}

// Peaks returns the highest values so far.
func (s *Sampler) Peaks() Peaks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.peaks
}

// Stop ends the sampling and returns the peaks and the curve, reduced to
// curvePointsMax points.
func (s *Sampler) Stop() (Peaks, []Point) {
	close(s.stop)
	s.done.Wait()
	return s.mu.peaks, thin(s.mu.curve, curvePointsMax)
}

// thin keeps at most limit evenly chosen points, including the last one.
func thin(points []Point, limit int) []Point {
	if len(points) <= limit {
		return points
	}
	step := (len(points) + limit - 1) / limit
	var kept []Point
	for i := len(points) - 1; i >= 0; i -= step {
		kept = append(kept, points[i])
	}
	slices.Reverse(kept)
	return kept
}
