// Package governor keeps the pages of mapped files to what the memory budget leaves
// for them, and loads tables that reads miss. It also keeps the number of mapped files to what
// the system allows. Package residency has the rules.
package governor

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/lock"
	"github.com/stoatdb/stoat/internal/residency"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/vfs"
)

const (
	// roundEvery is how long a round is.
	roundEvery = time.Second
	// idleMin is for how many rounds a file must have been unused for its pages to
	// be given back when the budget is passed.
	idleMin = 10
	// machineSpare is the share of the machine's memory, or of what its control group
	// allows, below which memory is short.
	machineSpare = 1.0 / 8
	// openMax is the number of open files from which the governor closes some. Each has a
	// mapping, of which Linux allows a process 65,530.
	openMax = 16 << 10
	// openKeep is the part of openMax that then stays open.
	openKeep = 3.0 / 4
	// marksShare is the part of the memory for pages that readers may take to remember which
	// values were verified.
	marksShare = 1.0 / 4
)

// A Governor gives mapped pages back. It works in rounds, and only while the
// database is read: the first use of a file in a round wakes it. A table that begins to count
// as missed wakes it, too.
type Governor struct {
	store  *state.Store
	report event.Sink
	// memory counts the decrypted pages of sealed files; it is nil without encryption.
	memory *seal.Memory
	// OpenMax is openMax, except in tests, which set it before the first round.
	OpenMax int

	mu lock.Mutex[lock.Governor] // held during a round
	// Guarded by mu.
	last      time.Time // of the round before
	residents []tree.Resident
	files     []residency.File

	gaveBack atomic.Int64 // bytes, since Open
}

// New returns the governor of a database. memory is that of an encrypted one, or nil.
func New(store *state.Store, report event.Sink, memory *seal.Memory) *Governor {
	return &Governor{store: store, report: report, memory: memory, OpenMax: openMax}
}

// GaveBack returns how many bytes of mapped pages were given back, since Open.
func (g *Governor) GaveBack() int64 { return g.gaveBack.Load() }

// Step is the step of the governor's worker. It loads a table that many reads found not in
// memory. It does a round, if the last one is long enough ago. It wants to be called again as
// long as there may be something to give back later, although no reader comes.
func (g *Governor) Step() (again time.Duration, err error) {
	g.store.LoadMissed(available)
	if left := roundEvery - time.Since(g.last); left > 0 {
		return left, nil
	}
	g.last = time.Now()
	more, err := g.Round(memoryShort())
	if more {
		again = roundEvery
	}
	if err != nil {
		g.report(event.Warning{What: "memory of a file could not be given back", Err: err})
	}
	return again, nil
}

// available returns how much memory the system could give to pages of files. It returns 0
// if the system does not tell.
func available() int64 {
	m, err := vfs.ReadMachineMemory()
	if err != nil {
		return 0
	}
	return m.Available
}

// memoryShort reports whether the machine has little memory left. Pages of files
// count as left: the kernel drops them when it needs to. A system that does not tell
// is taken to have enough, as it drops pages, too.
func memoryShort() bool {
	m, err := vfs.ReadMachineMemory()
	return err == nil && shortOf(m)
}

func shortOf(m vfs.MachineMemory) bool {
	return float64(m.Available) < machineSpare*float64(m.Total)
}

// Round does a round at once. strict says that the machine is short of memory. It reports
// whether another round has something to do even if no reader comes until then. This is so
// when files that are not idle yet pass the budget.
func (g *Governor) Round(strict bool) (more bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.memory != nil {
		return g.roundSealedLocked()
	}
	g.residents, g.files = g.store.Files().Residents(g.residents[:0]), g.files[:0]
	left := int64(0)
	for i := range g.residents {
		r := &g.residents[i]
		f := residency.File{Kind: r.Kind()}
		if gauge := r.Gauge(); gauge != nil {
			f.Bytes, f.IdleRounds = gauge.Bytes(), gauge.NextRound()
		}
		g.files = append(g.files, f)
		left += f.Bytes
	}
	limit := residency.Limit{Bytes: g.store.PagesBudget(g.store.ReaderBytes(g.residents)), IdleMin: idleMin, Strict: strict}
	var errs []error
	for _, i := range residency.Choose(g.files, limit) {
		errs = append(errs, g.residents[i].DropPages())
		g.gaveBack.Add(g.files[i].Bytes)
		left -= g.files[i].Bytes
	}
	g.forgetSomeLocked()
	g.closeSomeLocked()
	clear(g.residents) // a file that is closed is not kept by this
	return left > limit.Bytes, errors.Join(errs...)
}

// forgetSomeLocked keeps the marks of verified values within their part of the budget. The
// system cannot take them back, as it can mapped pages. The caller holds mu.
func (g *Governor) forgetSomeLocked() {
	for i := range g.residents {
		g.files[i].Bytes = g.residents[i].MarkBytes()
	}
	most := int64(marksShare * float64(g.store.PagesBudget(0)))
	for _, i := range residency.Choose(g.files, residency.Limit{Bytes: most, Strict: true}) {
		g.residents[i].Forget()
	}
}

// closeSomeLocked retires the readers of the files that were not used for the longest time,
// if too many are open. It waits until those that it has retired before are closed. While an
// old transaction keeps them, their files may be mapped a second time. The caller holds mu.
func (g *Governor) closeSomeLocked() {
	if len(g.files) <= g.OpenMax || g.store.HasRetired() {
		return
	}
	for i := range g.files {
		g.files[i].Bytes = 1
	}
	var chosen []tree.Resident
	for _, i := range residency.Choose(g.files, residency.Limit{Bytes: int64(openKeep * float64(g.OpenMax)), Strict: true}) {
		chosen = append(chosen, g.residents[i])
	}
	g.gaveBack.Add(g.store.Retire(chosen))
}
