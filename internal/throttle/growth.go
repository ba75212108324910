package throttle

import (
	"math"
	"sync/atomic"
)

const (
	// slackMax is how many times as much garbage a database that grows may hold beside its
	// writers: 55 % of the live values instead of 22 %.
	slackMax = 2.5
	// slackFull and slackNone are parts of the new values that replace others. Up to
	// slackFull there is all the slack, from slackNone on none.
	slackFull = 0.80
	slackNone = 0.95
	// growthMin is the part of what is written by which the live values of a database that
	// grows become more.
	growthMin = 0.25
)

// A growth measures whether the live values grow with what is written. Values that expire,
// or are deleted, replace none, and yet the database may stay as large as it was.
//
// A measurement ends once as much was written as is live. A shorter one would be misled,
// because compaction finds garbage in lumps.
type growth struct {
	wrote atomic.Int64  // bytes of values that commits have brought, since Open
	slack atomic.Uint64 // the bits of a float64

	// The others are guarded by the caller of SetDebt.
	from  int64   // wrote when the measurement began
	live  float64 // bytes of live values at that time
	known bool    // the measurement has begun
	grows bool    // the result of the last one
}

// Wrote notes that commits have brought values of that many bytes to value files.
func (t *Throttle) Wrote(bytes int64) { t.growth.wrote.Add(bytes) }

// Slack returns how many times as much garbage as usual the database may hold beside
// writers: 1 or more. While a database grows, garbage becomes a smaller part of it without
// help. Collecting it at once would only slow the growth down.
func (t *Throttle) Slack() float64 { return max(1, math.Float64frombits(t.growth.slack.Load())) }

// learn takes the bytes of live values, and the part of new values that replace others.
// It returns the slack.
func (g *growth) learn(live, replacing float64) float64 {
	wrote := g.wrote.Load()
	if !g.known {
		g.known, g.live = true, max(0, live-float64(wrote)) // before the first values
	}
	if written := float64(wrote - g.from); written > 0 && written >= live {
		g.grows = live-g.live >= growthMin*written
		g.from, g.live = wrote, live
	}
	slack := 1.0
	if g.grows {
		slack = slackFor(replacing)
	}
	g.slack.Store(math.Float64bits(slack))
	return slack
}

// slackFor returns the slack of a database that grows.
func slackFor(replacing float64) float64 {
	share := (slackNone - replacing) / (slackNone - slackFull)
	return 1 + (slackMax-1)*min(max(0, share), 1)
}
