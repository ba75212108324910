package commit

import (
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A Gate admits commits until it is shut. After Shut returns, every commit through it
// fails, or comes before all commits that join the queue later. In the same way it
// refuses commits with timestamps below its floor, after SetFloor.
type Gate struct {
	shut  atomic.Bool
	floor atomic.Uint64
}

// A Passage is the way of a commit through a gate.
type Passage struct {
	Gate  *Gate
	Least uint64 // the smallest timestamp that the commit writes
}

// admitted returns an error if the gate refuses the commit. The leader asks it under build.
func (p *Passage) admitted() error {
	if p.Gate.IsShut() && !mutant.On(mutant.WriteIntoDropped) {
		return base.ErrNoKeyspace
	}
	if p.Least < p.Gate.Floor() && !mutant.On(mutant.StampWriteDiscarded) {
		return base.ErrTimestampDiscarded
	}
	return nil
}

// Shut ends commits through the gate, with ErrNoKeyspace.
func (g *Gate) Shut() { g.shut.Store(true) }

// IsShut reports whether the gate is shut.
func (g *Gate) IsShut() bool { return g.shut.Load() }

// SetFloor makes the gate refuse timestamps below floor, with ErrTimestampDiscarded. It
// returns the floor before.
func (g *Gate) SetFloor(floor uint64) uint64 { return g.floor.Swap(floor) }

// Floor returns the smallest timestamp that the gate admits.
func (g *Gate) Floor() uint64 { return g.floor.Load() }
