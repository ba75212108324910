package residency

import "sync/atomic"

// A Gauge estimates how much of one mapped file is in memory, and tells
// whether it is in use. Its methods may be called from any goroutine, but Turn
// by one at a time. The zero value is an empty gauge that wakes nobody.
type Gauge struct {
	used  atomic.Bool
	rest  atomic.Int32 // rounds without a use
	bytes atomic.Int64
	wake  func()
}

// Init makes the gauge call wake at the first use in each round. wake must
// return at once.
func (g *Gauge) Init(wake func()) { g.wake = wake }

// Touch notes a use. It is cheap enough for every read.
func (g *Gauge) Touch() {
	if !g.used.Load() {
		g.touch()
	}
}

func (g *Gauge) touch() {
	if !g.used.Swap(true) && g.wake != nil {
		g.wake()
	}
}

// Add notes that n more bytes have come into memory, of size at most: what comes
// twice is not told apart.
func (g *Gauge) Add(n, size int64) {
	if n = min(n, size-g.bytes.Load()); n > 0 {
		g.bytes.Add(n)
	}
}

// Clear notes that all that was added has been given back. What is added at
// the same time may be forgotten.
func (g *Gauge) Clear() { g.bytes.Store(0) }

// Bytes returns how much has been added since Clear.
func (g *Gauge) Bytes() int64 { return g.bytes.Load() }

// Turn begins a new round. It returns for how many whole rounds nobody has
// used the file.
func (g *Gauge) Turn() int32 {
	if g.used.Swap(false) {
		g.rest.Store(0)
		return 0
	}
	return g.rest.Add(1)
}
