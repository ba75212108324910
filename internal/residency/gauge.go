package residency

import "sync/atomic"

// A Gauge estimates how much of one mapped file is in memory, and tells whether
// readers use it. Any goroutine may call its methods, but Turn only one at a
// time. The zero value is an empty gauge without a wake function.
type Gauge struct {
	used  atomic.Bool
	rest  atomic.Int32 // rounds without a use
	bytes atomic.Int64
	wake  func()
}

// Init makes the gauge call wake at the first use in each round. wake must
// return immediately.
func (g *Gauge) Init(wake func()) { g.wake = wake }

// Touch records a use. It is cheap enough for every read.
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

// Add records that n more bytes came into memory. The total is at most size,
// because Add counts pages again that come in twice.
func (g *Gauge) Add(n, size int64) {
	if n = min(n, size-g.bytes.Load()); n > 0 {
		g.bytes.Add(n)
	}
}

// Clear records that all added memory was given back. It may lose a concurrent
// Add.
func (g *Gauge) Clear() { g.bytes.Store(0) }

// Bytes returns how much was added since Clear.
func (g *Gauge) Bytes() int64 { return g.bytes.Load() }

// NextRound begins a new round. It returns for how many whole rounds no reader has
// used the file.
func (g *Gauge) NextRound() int32 {
	if g.used.Swap(false) {
		g.rest.Store(0)
		return 0
	}
	return g.rest.Add(1)
}
